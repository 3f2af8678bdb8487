-- Retry, dead, parked or given back, if the token is still the holder's; whatever waits again waits behind the earlier
-- events of its key. Given as a JSON list; keeps the last 20 lines of history. Primary key, once per line of the list,
-- and deliveries_key; takes the write lock.
with input as materialized (
  select value ->> 'seq' as seq, value ->> 'token' as token, value ->> 'status' as status, value ->> 'parked' as parked,
    value ->> 'give_back' as give_back, value ->> 'delay' as delay, value ->> 'error' as error,
    value ->> 'outcome' as outcome, value ->> 'steps' as steps, value ->> 'dead_blocks' as dead_blocks
  from json_each(?2)
)
update posthaste_deliveries as d
set status = i.status, token = null, locked_by = null, locked_until = null,
  parked = i.parked or (i.status = 'pending' and d.key is not null and exists (
    select 1 from posthaste_deliveries h
    where h.subscription = ?1 and h.key = d.key and h.seq < d.seq and (h.status <> 'dead' or i.dead_blocks)
  )),
  attempts = case when i.give_back then max(d.attempts - 1, 0) else d.attempts end, steps = i.steps,
  next_attempt_at = {now} + i.delay, updated_at = {now}, last_error = coalesce(i.error, d.last_error),
  history = case when i.outcome is null then d.history else json_insert(
    case when json_array_length(d.history) >= 20 then json_remove(d.history, '$[0]') else d.history end, '$[#]',
    json_object('attempt', d.attempts, 'at', {at}, 'worker', d.locked_by, 'outcome', i.outcome, 'error', i.error)) end
from input i
where d.subscription = ?1 and d.seq = i.seq and d.token = i.token
returning seq, key
