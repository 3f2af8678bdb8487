-- The delivery that an event has in a subscription. Primary key; locks that row.
select d.status, d.key, d.parked, d.steps, d.status = 'processing' and d.locked_until >= clock_timestamp() as held
from {schema}.deliveries d
where d.subscription = $1 and d.seq = $2
for update
