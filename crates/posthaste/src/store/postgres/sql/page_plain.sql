-- A page of a window in which nobody is late: along the primary key, nothing else. Locks nothing. If the subscription has
-- deliveries (`present`), events may be blocked or elsewhere, and page.sql must tell.
-- Parameters stand in subqueries: they are converted once and not for every row, and a plan that knows them would look no
-- better than one that does not, so that it is made once and not for every page.
-- A function that parallel plans may not contain keeps this one from being parallel: in a long log the planner expects to read far
-- before the filter lets a page through, and starts processes for every page, which costs far more than the page.
-- The limit that is a number, the most that any page has, is for the planner. Of one that it does not know it believes that a tenth of
-- the log will be read, and what costs so much is compiled to machine code first, which takes 50 ms and more for every page.
-- For the same reason the filter is one expression, of which it believes that it lets half of the events through.
-- The clock is asked only for events that have a time.
select {columns},
  nullif((select d.seq from {schema}.deliveries d where d.subscription = (select $1::bigint)
    order by d.subscription, d.seq limit 1) is not null, false) as present,
  case when e.available_at is not null and e.available_at > clock_timestamp()
    then (extract(epoch from e.available_at - clock_timestamp()) * 1000000)::bigint end as wait
from (
  select * from {schema}.events e
  where e.seq > (select $8::bigint) and e.seq <= (select $9::bigint) and e.xid >= (select $10::text::xid8)
    and pg_visible_in_snapshot(e.xid, (select $11::text::pg_snapshot)) and {wanted}
    and (pg_current_xact_id_if_assigned() is null or true)
  order by e.seq limit {most}
) e
order by e.seq
limit (select $12::bigint)
