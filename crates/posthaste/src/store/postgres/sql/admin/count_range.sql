-- Counts the wanted events of a range, up to $13, looking at no more than $12: `cut` says that it stopped before the
-- end. Those that have a delivery are counted there. Primary keys, from $8 on.
with looked as (
  select e.seq, e.created_at, e.namespace, e.topic, e.event_type, e.tenant_id, e.key from {schema}.events e
  where e.seq > $8 and e.seq <= $9 and e.xid >= $10::text::xid8
    and ($11::text is null or pg_visible_in_snapshot(e.xid, $11::text::pg_snapshot))
  order by e.seq limit $12
), found as (
  select e.seq, e.created_at from looked e
  where {wanted} and not exists (select 1 from {schema}.deliveries d where d.subscription = $1 and d.seq = e.seq)
  order by e.seq limit $13
)
select (select count(*) from found) as found,
  case when (select count(*) from found) < $13 then (select count(*) from looked) >= $12 else true end as cut,
  (select created_at from found order by seq limit 1) as oldest_at
