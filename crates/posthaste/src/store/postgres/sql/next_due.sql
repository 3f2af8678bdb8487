-- Microseconds until a delivery is due or a lease may have run out; null if nothing waits. Indexes: deliveries_due,
-- deliveries_leased, batches_unfinished.
select (greatest(extract(epoch from least(
  (select min(d.next_attempt_at) from {schema}.deliveries d
   where d.subscription = $1 and d.status = 'pending' and not d.parked),
  (select min(d.locked_until) from {schema}.deliveries d where d.subscription = $1 and d.status = 'processing')
) - clock_timestamp()), 0) * 1000000)::bigint as wait
