-- Writes the delivery rows of events that left the happy path, given as a JSON list. An event that has a row already
-- keeps it. Primary key; takes the write lock.
insert into posthaste_deliveries (subscription, seq, event_id, key, status, parked, solo, attempts, steps,
  next_attempt_at, token, locked_by, locked_until, last_error, history)
select ?1, i.value ->> 'seq', i.value ->> 'event_id', i.value ->> 'key', i.value ->> 'status', i.value ->> 'parked',
  i.value ->> 'solo', i.value ->> 'attempts', i.value ->> 'steps',
  coalesce(i.value ->> 'due_at', {now} + (i.value ->> 'delay')), i.value ->> 'token',
  case when i.value ->> 'token' is not null then ?2 end,
  case when i.value ->> 'token' is not null then {now} + ?3 end,
  i.value ->> 'error',
  case when i.value ->> 'outcome' is null then '[]' else json_array(json_object('attempt', i.value ->> 'attempts',
    'at', {at}, 'worker', ?2, 'outcome', i.value ->> 'outcome', 'error', i.value ->> 'error')) end
from json_each(?4) i
where true
on conflict (subscription, seq) do nothing
returning seq
