-- Microseconds until a delivery is due or a lease may have run out; null if nothing waits. Indexes: deliveries_due,
-- deliveries_leased, deliveries_parked; reads only. Without an order of keys (?3) nothing may stay parked: a worker of
-- an older declaration may have parked it.
select max(min(t.at) - {now}, 0) as wait
from (
  select min(d.next_attempt_at) as at from posthaste_deliveries d
  where d.subscription = ?1 and d.status = 'pending' and not d.parked and (not d.solo or ?2)
  union all
  select min(d.next_attempt_at) from posthaste_deliveries d
  where d.subscription = ?1 and d.status = 'pending' and d.parked and ?3
  union all
  select min(d.locked_until) from posthaste_deliveries d where d.subscription = ?1 and d.status = 'processing'
) t
