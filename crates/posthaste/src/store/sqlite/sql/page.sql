-- A page of the log, in seq order, along the primary key. Reads only; a claim runs it under the write lock.
-- `blocked`: an earlier event of the key is still a delivery. `elsewhere`: the event has a delivery of its own.
select {columns},
  exists (
    select 1 from posthaste_deliveries d
    where d.subscription = ?1 and d.key = e.key and d.seq < e.seq and (d.status <> 'dead' or ?10)
  ) as blocked,
  exists (select 1 from posthaste_deliveries d where d.subscription = ?1 and d.seq = e.seq) as elsewhere,
  case when e.available_at > {now} then e.available_at - {now} end as wait
from posthaste_events e
where e.seq > ?8 and e.seq <= ?9 and {wanted}
order by e.seq
limit ?11
