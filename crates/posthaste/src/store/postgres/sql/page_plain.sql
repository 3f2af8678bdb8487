-- A page of a window in which nobody is late: along the primary key, nothing else. Locks nothing. If the subscription has
-- deliveries (`present`), events may be blocked or elsewhere, and page.sql must tell. Parameters that must be converted
-- stand in subqueries, which are evaluated once and not for every row.
select {columns},
  (select d.seq from {schema}.deliveries d where d.subscription = $1 order by d.subscription, d.seq limit 1) is not null
    as present,
  case when e.available_at > clock_timestamp()
    then (extract(epoch from e.available_at - clock_timestamp()) * 1000000)::bigint end as wait
from {schema}.events e
where e.seq > $8 and e.seq <= $9 and e.xid >= (select $10::text::xid8)
  and pg_visible_in_snapshot(e.xid, (select $11::text::pg_snapshot)) and {wanted}
order by e.seq
limit $12
