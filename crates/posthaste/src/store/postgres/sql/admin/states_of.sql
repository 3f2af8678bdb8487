-- The state of one event in every subscription that wants it. Primary keys.
select v.subscription, v.status, v.attempts, v.next_attempt_at, v.parked, v.locked_by, v.locked_until, v.last_error,
  d.edited_payload, d.history
from {schema}.event_status v
left join {schema}.deliveries d on d.seq = v.seq
  and d.subscription = (select s.id from {schema}.subscriptions s where s.name = v.subscription)
where v.seq = $1
order by v.subscription
