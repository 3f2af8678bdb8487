-- Wakes the next event of keys whose head has gone: the earliest row is due now, if it waited. Index: deliveries_key.
update {schema}.deliveries d
set parked = false, next_attempt_at = clock_timestamp(), updated_at = clock_timestamp()
from unnest($2::text[]) as k (key)
where d.subscription = $1 and d.key = k.key and d.parked
  and d.seq = (
    select min(h.seq) from {schema}.deliveries h
    where h.subscription = $1 and h.key = k.key and (h.status <> 'dead' or $3)
  )
