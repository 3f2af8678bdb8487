-- Takes back deliveries whose lease ran out. A row claimed together with others gets its attempt back and is claimed
-- alone from now on; a row that was alone keeps the attempt, becomes dead at the limit, and else waits its backoff.
-- UPDATE FROM: every row is judged by the table as it was before. Index: deliveries_leased; takes the write lock.
update posthaste_deliveries as d
set status = case when x.exhausted then 'dead' else 'pending' end,
  attempts = case when d.solo then d.attempts else max(d.attempts - 1, 0) end,
  parked = x.behind and not x.exhausted,
  next_attempt_at = {now} + case when d.solo
    then cast(min(?3 * (1 << min(max(d.attempts - 1, 0), 40)), ?4) as integer) else 0 end,
  solo = 1, token = null, locked_by = null, locked_until = null, updated_at = {now},
  last_error = case when d.solo
    then 'the worker ' || coalesce(d.locked_by, '?') || ' was lost during attempt ' || d.attempts else d.last_error end,
  history = case when d.solo then json_insert(d.history, '$[#]', json_object('attempt', d.attempts, 'at', {at},
    'worker', d.locked_by, 'outcome', 'lost', 'error', null)) else d.history end
from (
  select l.seq, l.solo and l.attempts >= ?2 as exhausted, l.key is not null and exists (
    select 1 from posthaste_deliveries h
    where h.subscription = ?1 and h.key = l.key and h.seq < l.seq and (h.status <> 'dead' or ?5)
  ) as behind
  from posthaste_deliveries l
  where l.subscription = ?1 and l.status = 'processing' and l.locked_until < {now}
  order by l.locked_until
  limit 1000
) x
where d.subscription = ?1 and d.seq = x.seq
returning key, status
