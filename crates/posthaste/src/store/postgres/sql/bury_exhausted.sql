-- Due rows at the attempt limit (it was lowered, or their worker died) become dead. Index: deliveries_due.
with exhausted as (
  select d.seq from {schema}.deliveries d
  where d.subscription = $1 and d.status = 'pending' and not d.parked and d.next_attempt_at <= clock_timestamp()
    and d.attempts >= $2
  order by d.next_attempt_at, d.seq
  limit 1000
  for update skip locked
)
update {schema}.deliveries d
set status = 'dead', updated_at = clock_timestamp(),
  last_error = coalesce(d.last_error, 'the limit of ' || $2 || ' attempts is reached')
where d.subscription = $1 and d.seq = any (array (select seq from exhausted))
returning d.key
