-- The deliveries just claimed, with their events, in seq order. Primary keys; reads only, under the write lock.
select {columns}, d.key as order_key, d.attempts, d.steps, d.solo, d.edited_payload
from posthaste_deliveries d
join posthaste_events e on e.seq = d.seq
where d.subscription = ?1 and d.seq in (select value from json_each(?2))
order by e.seq
