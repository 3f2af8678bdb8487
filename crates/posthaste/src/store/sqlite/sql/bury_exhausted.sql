-- Due rows at the attempt limit (it was lowered, or their worker died) become dead. Index: deliveries_due; takes the
-- write lock.
update posthaste_deliveries
set status = 'dead', updated_at = {now},
  last_error = coalesce(last_error, 'the limit of ' || ?2 || ' attempts is reached')
where subscription = ?1 and seq in (
  select d.seq from posthaste_deliveries d
  where d.subscription = ?1 and d.status = 'pending' and not d.parked and d.next_attempt_at <= {now}
    and d.attempts >= ?2
  order by d.next_attempt_at, d.seq
  limit 1000
)
returning key
