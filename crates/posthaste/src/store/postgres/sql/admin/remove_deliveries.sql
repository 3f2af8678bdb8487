-- A person takes deliveries away: the rows go, what they said stays in the record. Primary key.
with gone as (
  delete from {schema}.deliveries d where d.subscription = $1 and d.seq = any ($2)
  returning d.subscription, d.seq, d.event_id, d.status, d.attempts, d.last_error, d.history
)
insert into {schema}.operations (who, verb, subscription, seq, event_id, detail)
select $3, $4, s.name, g.seq, g.event_id, jsonb_build_object('status', g.status, 'attempts', g.attempts,
  'last_error', g.last_error, 'history', g.history)
from gone g join {schema}.subscriptions s on s.id = g.subscription
