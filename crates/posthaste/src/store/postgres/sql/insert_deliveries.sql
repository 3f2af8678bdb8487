-- Writes the delivery rows of events that left the happy path. An event that has a row already keeps it.
insert into {schema}.deliveries (subscription, seq, event_id, key, status, parked, solo, attempts, steps,
  next_attempt_at, token, locked_by, locked_until, last_error, history)
select $1, i.seq, i.event_id, i.key, i.status, i.parked, i.solo, i.attempts, i.steps,
  coalesce(i.due_at, clock_timestamp() + coalesce(i.delay, 0) * interval '1 microsecond'), i.token,
  case when i.token is not null then $2 end,
  case when i.token is not null then clock_timestamp() + $3 * interval '1 microsecond' end,
  i.error,
  case when i.outcome is null then '[]'::jsonb else jsonb_build_array(jsonb_build_object('attempt', i.attempts,
    'at', clock_timestamp(), 'worker', $2::text, 'outcome', i.outcome, 'error', i.error)) end
from unnest($4::bigint[], $5::uuid[], $6::text[], $7::text[], $8::boolean[], $9::boolean[], $10::integer[],
  $11::timestamptz[], $12::bigint[], $13::uuid[], $14::text[], $15::text[], $16::smallint[])
  as i (seq, event_id, key, status, parked, solo, attempts, due_at, delay, token, error, outcome, steps)
on conflict (subscription, seq) do nothing
returning seq
