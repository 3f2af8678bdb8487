-- Every event that a subscription wants and has not delivered, in one snapshot. `own`: it has a delivery of its own.
-- `held_until`: order `strict`, and the head of a batch waits for its time. Reads only, the whole log of a test.
select v.seq, e.id, e.topic, e.event_type, e.key, v.status, v.attempts, v.parked, v.last_error,
  coalesce(v.next_attempt_at, e.available_at, e.created_at) as due_at,
  coalesce(v.next_attempt_at, e.available_at, e.created_at) - {now} as due_in,
  d.seq is not null as own,
  (select max(b.retry_after) from posthaste_batches b
   where b.subscription = s.id and b.finished_at is null and b.retry_count > 0 and b.retry_after > {now}) as held_until
from posthaste_subscriptions s
join posthaste_states v on v.subscription = s.name
join posthaste_events e on e.seq = v.seq
left join posthaste_deliveries d on d.subscription = s.id and d.seq = v.seq
where s.name = ?1 and v.status <> 'delivered'
order by v.seq
