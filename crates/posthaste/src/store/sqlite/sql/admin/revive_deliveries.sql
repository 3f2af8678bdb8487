-- A person asked for another try: pending, no attempt counted, due now; with ?6 also from the first step on, as it
-- must be with another body. Those with a key are parked here and placed in
-- their key's order by repark_keys, which must see all of them. Primary key; takes the write lock.
update posthaste_deliveries
set status = 'pending', attempts = 0, parked = ?5 and key is not null, next_attempt_at = {now}, token = null,
  locked_by = null, locked_until = null, updated_at = {now}, edited_payload = coalesce(?4, edited_payload),
  steps = case when ?6 then 0 else steps end,
  history = json_insert(
    case when json_array_length(history) >= 20 then json_remove(history, '$[0]') else history end, '$[#]',
    json_object('attempt', attempts, 'at', {at}, 'worker', ?3, 'outcome', 'revived', 'error', null))
where subscription = ?1 and seq in (select value from json_each(?2))
