-- One subscription as it stands. Unique index on the name.
select id, name, ordering, claim_by, after_dead, lanes, declared || overrides as settings, paused_at is not null as paused
from {schema}.subscriptions
where name = $1
