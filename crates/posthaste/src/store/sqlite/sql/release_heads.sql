-- Dead letters no longer hold their keys: the first event that waits behind one is due. Index: deliveries_parked,
-- deliveries_key; takes the write lock.
update posthaste_deliveries as d
set parked = false, next_attempt_at = {now}, updated_at = {now}
where d.subscription = ?1 and d.parked and d.seq = (
  select min(h.seq) from posthaste_deliveries h
  where h.subscription = ?1 and h.key = d.key and h.status <> 'dead'
)
