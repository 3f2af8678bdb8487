-- A page of a window: events visible in `hi` and not in `lo`, in seq order. Main branch by the primary key; late branch
-- (transactions that were running in `lo`) by the primary key within its bounds. Locks nothing.
-- `blocked`: an earlier event of the key is still a delivery. `elsewhere`: the event has a delivery of its own.
-- The probes into deliveries are lateral with a LIMIT, so that the planner cannot turn them into a hash of the table, and
-- they are made only if the subscription has any delivery at all. Never by a parallel plan, and two limits: see page_plain.sql.
select {columns}, blocker.seq is not null as blocked, own.seq is not null as elsewhere,
  case when e.available_at > clock_timestamp()
    then (extract(epoch from e.available_at - clock_timestamp()) * 1000000)::bigint end as wait
from (
  (
    select * from (
      select * from {schema}.events e
      where e.seq > $8 and e.seq <= $9 and e.xid >= (select $10::text::xid8)
        and pg_visible_in_snapshot(e.xid, (select $11::text::pg_snapshot)) and {wanted}
        and (pg_current_xact_id_if_assigned() is null or true)
      order by e.seq limit {most}
    ) e
    order by e.seq limit $16
  )
  union all
  (
    select * from (
      select * from {schema}.events e
      where e.seq > $12 and e.seq <= $13 and e.xid = any ($14::text[]::xid8[]) and {wanted}
      order by e.seq limit {most}
    ) e
    order by e.seq limit $16
  )
) e
left join (
  select d.seq from {schema}.deliveries d where d.subscription = $1 order by d.subscription, d.seq limit 1
) present on true
left join lateral (
  select d.seq from {schema}.deliveries d
  where present.seq is not null and d.subscription = $1 and d.key = e.key and d.seq < e.seq and (d.status <> 'dead' or $15)
  limit 1
) blocker on true
left join lateral (
  select d.seq from {schema}.deliveries d
  where present.seq is not null and d.subscription = $1 and d.seq = e.seq
  limit 1
) own on true
order by e.seq
limit $16
