-- Puts the waiting events of these keys in order: the first is due, the others wait behind it. Index: deliveries_key;
-- takes the write lock.
update posthaste_deliveries as d
set parked = d.seq > k.head, next_attempt_at = case when d.parked then {now} else d.next_attempt_at end,
  updated_at = {now}
from (
  select i.value as key, (
    select min(h.seq) from posthaste_deliveries h
    where h.subscription = ?1 and h.key = i.value and (h.status <> 'dead' or ?3)
  ) as head
  from json_each(?2) i
) k
where d.subscription = ?1 and d.key = k.key and d.status = 'pending' and d.parked <> (d.seq > k.head)
