-- Takes back deliveries whose lease ran out. A row claimed together with others gets its attempt back and is claimed
-- alone from now on; a row that was alone keeps the attempt, becomes dead at the limit, and else waits its backoff.
-- Locks those rows, skips locked ones. Index: deliveries_leased.
with expired as (
  select d.seq from {schema}.deliveries d
  where d.subscription = $1 and d.status = 'processing' and d.locked_until < clock_timestamp()
  order by d.locked_until
  limit 1000
  for update skip locked
)
update {schema}.deliveries d
set status = case when d.solo and d.attempts >= $2 then 'dead' else 'pending' end,
  attempts = case when d.solo then d.attempts else greatest(d.attempts - 1, 0) end,
  parked = not (d.solo and d.attempts >= $2) and d.key is not null and exists (
    select 1 from {schema}.deliveries h
    where h.subscription = $1 and h.key = d.key and h.seq < d.seq and (h.status <> 'dead' or $5)
  ),
  next_attempt_at = case when d.solo
    then clock_timestamp() + least($3 * power(2, least(d.attempts, 60) - 1), $4) * interval '1 microsecond'
    else clock_timestamp() end,
  solo = true, token = null, locked_by = null, locked_until = null, updated_at = clock_timestamp(),
  last_error = case when d.solo
    then 'the worker ' || coalesce(d.locked_by, '?') || ' was lost during attempt ' || d.attempts else d.last_error end,
  history = case when d.solo then d.history || jsonb_build_object('attempt', d.attempts, 'at', clock_timestamp(),
    'worker', d.locked_by, 'outcome', 'lost', 'error', null) else d.history end
where d.subscription = $1 and d.seq = any (array (select seq from expired))
returning d.key, d.status
