-- The same for what a subscription wants, with its state there. Primary key within the span.
select {columns}, v.subscription, v.status, v.attempts, v.next_attempt_at, v.parked, v.locked_by, v.locked_until,
  v.last_error, d.edited_payload, d.history
from {schema}.event_status v
join {schema}.events e on e.seq = v.seq
left join {schema}.deliveries d on d.seq = v.seq
  and d.subscription = (select s.id from {schema}.subscriptions s where s.name = v.subscription)
where v.seq >= $1 and v.seq <= $2 and {matching}
  and v.subscription = $16 and ($17::text is null or position($17 in v.last_error) > 0)
  and ($18::text is null or v.status = $18)
order by e.seq * $13
limit $14
