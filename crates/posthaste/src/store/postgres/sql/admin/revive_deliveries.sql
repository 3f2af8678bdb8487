-- A person asked for another try: pending, no attempt counted, due now; with $7 also from the first step on, as it
-- must be with another body. Those with a key are parked here and placed in
-- their key's order by repark_keys, which must see all of them. Primary key.
with revived as (
  update {schema}.deliveries d
  set status = 'pending', attempts = 0, parked = $6 and d.key is not null, next_attempt_at = clock_timestamp(),
    token = null, locked_by = null, locked_until = null, updated_at = clock_timestamp(),
    edited_payload = coalesce($5, d.edited_payload), steps = case when $7 then 0 else d.steps end,
    history = (case when jsonb_array_length(d.history) >= 20 then d.history - 0 else d.history end)
      || jsonb_build_object('attempt', d.attempts, 'at', clock_timestamp(), 'worker', $3::text, 'outcome', 'revived',
        'error', null)
  where d.subscription = $1 and d.seq = any ($2)
  returning d.subscription, d.seq, d.event_id, d.last_error
)
insert into {schema}.operations (who, verb, subscription, seq, event_id, detail)
select $3, $4, s.name, r.seq, r.event_id, jsonb_build_object('last_error', r.last_error)
from revived r join {schema}.subscriptions s on s.id = r.subscription
