-- Retry, dead, parked or given back, if the token is still the holder's; whatever waits again waits behind the earlier
-- events of its key. Keeps the last 20 lines of history. Primary key, deliveries_key.
update {schema}.deliveries d
set status = i.status, token = null, locked_by = null, locked_until = null,
  parked = i.parked or (i.status = 'pending' and d.key is not null and exists (
    select 1 from {schema}.deliveries h
    where h.subscription = $1 and h.key = d.key and h.seq < d.seq and (h.status <> 'dead' or $10)
  )),
  attempts = case when i.give_back then greatest(d.attempts - 1, 0) else d.attempts end, steps = i.steps,
  next_attempt_at = clock_timestamp() + i.delay * interval '1 microsecond', updated_at = clock_timestamp(),
  last_error = coalesce(i.error, d.last_error),
  history = case when i.outcome is null then d.history else
    (case when jsonb_array_length(d.history) >= 20 then d.history - 0 else d.history end)
      || jsonb_build_object('attempt', d.attempts, 'at', clock_timestamp(), 'worker', d.locked_by, 'outcome', i.outcome,
        'error', i.error) end
from unnest($2::bigint[], $3::uuid[], $4::text[], $5::boolean[], $6::boolean[], $7::bigint[], $8::text[], $9::text[],
  $11::smallint[]) as i (seq, token, status, parked, give_back, delay, error, outcome, steps)
where d.subscription = $1 and d.seq = i.seq and d.token = i.token
returning d.seq, d.key
