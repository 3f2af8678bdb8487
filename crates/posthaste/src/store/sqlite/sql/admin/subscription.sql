-- One subscription with everything an operator may see of its declaration. Unique index on the name; primary key; reads
-- only.
select s.id, s.name, s.ordering, s.claim_by, s.after_dead, s.lanes, json_patch(s.declared, s.overrides) as settings,
  s.paused_at is not null as paused, s.paused_at, s.overrides, f.namespaces, f.topics, f.event_types, f.tenants
from posthaste_subscriptions s
join posthaste_filters f on f.subscription = s.id and f.version = s.filter_version
where s.name = ?1
