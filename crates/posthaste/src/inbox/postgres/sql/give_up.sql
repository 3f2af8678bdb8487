-- Keeps a letter; one that was given up before is opened again with what is new. Index: unique (consumer, event_id).
insert into {schema}.dead_letters as l
  (consumer, event_id, topic, key, content_type, headers, payload, reason, attempts)
values ($1, $2, $3, $4, $5, $6::text::json, $7, $8, $9)
on conflict (consumer, event_id) do update set
  topic = excluded.topic, key = excluded.key, content_type = excluded.content_type, headers = excluded.headers,
  payload = excluded.payload, reason = excluded.reason, attempts = excluded.attempts, times = l.times + 1,
  status = 'open', given_up_at = excluded.given_up_at, decided_at = null
returning number
