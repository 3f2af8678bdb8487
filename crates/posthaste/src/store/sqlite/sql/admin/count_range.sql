-- Counts the wanted events of a range, up to ?11, looking at no more than ?10: `cut` says that it stopped before the
-- end. Those that have a delivery are counted there. Primary keys, from ?8 on; reads only.
with looked as materialized (
  select e.seq, e.created_at, e.namespace, e.topic, e.event_type, e.tenant_id, e.key_hash from posthaste_events e
  where e.seq > ?8 and e.seq <= ?9
  order by e.seq limit ?10
), found as materialized (
  select e.seq, e.created_at from looked e
  where {wanted} and not exists (select 1 from posthaste_deliveries d where d.subscription = ?1 and d.seq = e.seq)
  order by e.seq limit ?11
)
select (select count(*) from found) as found,
  case when (select count(*) from found) < ?11 then (select count(*) from looked) >= ?10 else 1 end as cut,
  (select created_at from found order by seq limit 1) as oldest_at
