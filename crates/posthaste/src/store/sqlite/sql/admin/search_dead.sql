-- Dead letters between two places that match, wherever they lie in the log. Index: deliveries_dead, then primary key;
-- reads only.
select {columns}, s.name as subscription, d.status, d.attempts, d.next_attempt_at, d.parked, d.locked_by,
  d.locked_until, d.last_error, d.edited_payload, d.history
from posthaste_subscriptions s
join posthaste_deliveries d indexed by posthaste_deliveries_dead on d.subscription = s.id
join posthaste_events e on e.seq = d.seq
where s.name = ?16 and d.status = 'dead' and d.seq >= ?1 and d.seq <= ?2 and {matching}
  and (?17 is null or instr(d.last_error, ?17) > 0)
order by d.seq * ?13
limit ?14
