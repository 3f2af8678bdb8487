-- Wakes the next event of keys whose head has gone: the earliest row is due now, if it waited. Index: deliveries_key;
-- takes the write lock.
update posthaste_deliveries
set parked = 0, next_attempt_at = {now}, updated_at = {now}
where subscription = ?1 and key in (select value from json_each(?2)) and parked
  and seq = (
    select min(h.seq) from posthaste_deliveries h
    where h.subscription = ?1 and h.key = posthaste_deliveries.key and (h.status <> 'dead' or ?3)
  )
