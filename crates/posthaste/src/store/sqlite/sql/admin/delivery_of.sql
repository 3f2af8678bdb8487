-- The delivery that an event has in a subscription, under the write lock. Primary key.
select d.status, d.key, d.parked, d.steps, d.status = 'processing' and d.locked_until >= {now} as held
from posthaste_deliveries d
where d.subscription = ?1 and d.seq = ?2
