-- Where a lane stands, whose it is, and the filter in force. Primary keys throughout; reads only.
select p.number, p.pos, p.finished, l.stop_mark, {now} - p.moved_at as age,
  ?4 is null or coalesce(l.token = ?4, 0) as owned,
  exists (
    select 1 from posthaste_batches b indexed by posthaste_batches_unfinished
    where b.subscription = ?1 and b.generation = ?2 and b.lane = ?3 and b.finished_at is null
  ) as unfinished,
  exists (select 1 from posthaste_deliveries d where d.subscription = ?1 and d.seq > 0) as deliveries,
  coalesce((select seq from sqlite_sequence where name = 'posthaste_events'), 0) as last_seq,
  f.version, f.namespaces, f.topics, f.event_types, f.tenants
from posthaste_progress p
join posthaste_lanes l on l.subscription = p.subscription and l.generation = p.generation and l.lane = p.lane
join posthaste_subscriptions s on s.id = p.subscription
join posthaste_filters f on f.subscription = s.id and f.version = s.filter_version
where p.subscription = ?1 and p.generation = ?2 and p.lane = ?3
