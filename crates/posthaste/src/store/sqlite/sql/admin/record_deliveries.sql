-- A line about each delivery that a verb is about to change, with what it says now. Given as a JSON list of seqs.
-- Primary keys; takes the write lock.
insert into posthaste_operations (who, verb, subscription, seq, event_id, detail)
select ?3, ?4, s.name, d.seq, d.event_id, json_object('status', d.status, 'key', d.key, 'attempts', d.attempts,
  'last_error', d.last_error, 'history', json(d.history))
from posthaste_subscriptions s
cross join json_each(?2) i
cross join posthaste_deliveries d on d.subscription = s.id and d.seq = i.value
where s.id = ?1
