-- One subscription as it stands. Unique index on the name; reads only.
select id, name, ordering, claim_by, after_dead, lanes, json_patch(declared, overrides) as settings,
  paused_at is not null as paused
from posthaste_subscriptions
where name = ?1
