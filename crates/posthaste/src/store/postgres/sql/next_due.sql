-- Microseconds until a delivery is due or a lease may have run out; null if nothing waits (`greatest` passes over a null,
-- so it must not meet one: every idle poll would claim). Without an order of
-- keys ($3) nothing may stay parked: a worker of an older declaration may have parked it. Indexes: deliveries_due,
-- deliveries_leased, deliveries_parked.
select case when next.at is not null
  then (greatest(extract(epoch from next.at - clock_timestamp()), 0) * 1000000)::bigint end as wait
from (select least(
  (select min(d.next_attempt_at) from {schema}.deliveries d
   where d.subscription = $1 and d.status = 'pending' and not d.parked and (not d.solo or $2)),
  (select clock_timestamp() from {schema}.deliveries d
   where d.subscription = $1 and d.parked and $3 order by d.subscription, d.key, d.seq limit 1),
  (select min(d.locked_until) from {schema}.deliveries d where d.subscription = $1 and d.status = 'processing')
) as at) next
