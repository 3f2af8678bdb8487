-- Dead letters no longer hold their keys: the first event that waits behind one is due. Index: deliveries_parked,
-- deliveries_key.
update {schema}.deliveries d
set parked = false, next_attempt_at = clock_timestamp(), updated_at = clock_timestamp()
where d.subscription = $1 and d.parked and d.seq = (
  select min(h.seq) from {schema}.deliveries h
  where h.subscription = $1 and h.key = d.key and h.status <> 'dead'
)
