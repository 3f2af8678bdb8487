-- A page of a window: events visible in `hi` and not in `lo`, in seq order. Main branch by the primary key; late branch
-- (transactions that were running in `lo`) by the primary key within its bounds. Locks nothing.
-- `blocked`: an earlier event of the key is still a delivery. `elsewhere`: the event has a delivery of its own.
select {columns},
  case when present.deliveries then exists (
    select 1 from {schema}.deliveries d
    where d.subscription = $1 and d.key = e.key and d.seq < e.seq and (d.status <> 'dead' or $15)
  ) else false end as blocked,
  case when present.deliveries then exists (
    select 1 from {schema}.deliveries d where d.subscription = $1 and d.seq = e.seq
  ) else false end as elsewhere,
  case when e.available_at > clock_timestamp()
    then (extract(epoch from e.available_at - clock_timestamp()) * 1000000)::bigint end as wait
from (
  (
    select * from {schema}.events e
    where e.seq > $8 and e.seq <= $9 and e.xid >= $10::text::xid8
      and pg_visible_in_snapshot(e.xid, $11::text::pg_snapshot) and {wanted}
    order by e.seq limit $16
  )
  union all
  (
    select * from {schema}.events e
    where e.seq > $12 and e.seq <= $13 and e.xid = any ($14::text[]::xid8[]) and {wanted}
    order by e.seq limit $16
  )
) e, (select exists (select 1 from {schema}.deliveries d where d.subscription = $1) as deliveries) present
order by e.seq
limit $16
