-- Keeps a letter; one that was given up before is opened again with what is new. Index: unique (consumer, event_id); takes
-- the write lock.
insert into posthaste_inbox_dead_letters
  (consumer, event_id, topic, key, content_type, headers, payload, reason, attempts, given_up_at)
values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, {now})
on conflict (consumer, event_id) do update set
  topic = excluded.topic, key = excluded.key, content_type = excluded.content_type, headers = excluded.headers,
  payload = excluded.payload, reason = excluded.reason, attempts = excluded.attempts, times = times + 1,
  status = 'open', given_up_at = excluded.given_up_at, decided_at = null
returning number
