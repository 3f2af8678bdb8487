-- Puts the waiting events of these keys in order: the first is due, the others wait behind it. Index: deliveries_key.
with heads as (
  select k.key, (
    select min(h.seq) from {schema}.deliveries h
    where h.subscription = $1 and h.key = k.key and (h.status <> 'dead' or $3)
  ) as head
  from unnest($2::text[]) as k (key)
)
update {schema}.deliveries d
set parked = d.seq > h.head,
  next_attempt_at = case when d.parked then clock_timestamp() else d.next_attempt_at end, updated_at = clock_timestamp()
from heads h
where d.subscription = $1 and d.key = h.key and d.status = 'pending' and d.parked <> (d.seq > h.head)
