-- Which batches of the journal an event was read in. Looks at the newest ?2 of each lane: primary keys; reads only.
select s.name as subscription, j.claimed_at, j.finished_at, j.locked_by as worker
from posthaste_subscriptions s
join posthaste_progress p on p.subscription = s.id
join posthaste_batches j on j.subscription = p.subscription and j.generation = p.generation and j.lane = p.lane
  and j.number > p.number - ?2 and ?1 between j.seq_from and j.seq_to
join posthaste_filters f on f.subscription = s.id and f.version = j.filter_version
join posthaste_events e on e.seq = ?1
where (p.lanes = 1 or abs(coalesce(e.key_hash, e.seq) % p.lanes) = p.lane)
  and (f.namespaces is null or e.namespace in (select value from json_each(f.namespaces)))
  and (f.topics is null or e.topic in (select value from json_each(f.topics)))
  and (f.event_types is null or e.event_type in (select value from json_each(f.event_types)))
  and (f.tenants is null or e.tenant_id in (select value from json_each(f.tenants)))
order by s.name, j.claimed_at
