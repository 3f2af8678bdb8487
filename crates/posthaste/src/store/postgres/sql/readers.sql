-- Every subscription as it stands, for all workers of a process at once. Reads a small table whole.
select id, name, ordering, claim_by, after_dead, lanes, declared || overrides as settings, paused_at is not null as paused
from {schema}.subscriptions
