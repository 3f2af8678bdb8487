-- Every event that a subscription wants and has not delivered, in one snapshot. `own`: it has a delivery of its own.
-- `held_until`: order `strict`, and the head of a batch waits for its time. Reads only, the whole log of a test.
select v.seq, v.id, v.topic, v.event_type, v.key, v.status, v.attempts, v.parked, v.last_error,
  v.next_attempt_at as due_at,
  (extract(epoch from v.next_attempt_at - clock_timestamp()) * 1000000)::bigint as due_in, d.seq is not null as own,
  (select max(b.retry_after) from {schema}.batches b
   where b.subscription = s.id and b.finished_at is null and b.retry_count > 0
     and b.retry_after > clock_timestamp()) as held_until
from {schema}.subscriptions s
join {schema}.event_status v on v.subscription = s.name
left join {schema}.deliveries d on d.subscription = s.id and d.seq = v.seq
where s.name = $1 and v.status <> 'delivered'
order by v.seq
