-- Reserves dedupe keys, in sorted order so that two calls cannot deadlock on the same keys, and returns the event ids
-- that won. Waits for a transaction that holds the same key; the primary key decides.
insert into {schema}.dedupe_keys (namespace, topic, dedupe_key, event_id, expires_at)
select namespace, topic, dedupe_key, event_id, clock_timestamp() + lifetime * interval '1 microsecond'
from unnest($1::text[], $2::text[], $3::text[], $4::uuid[], $5::bigint[])
  as input (namespace, topic, dedupe_key, event_id, lifetime)
order by namespace, topic, dedupe_key
on conflict do nothing
returning event_id
