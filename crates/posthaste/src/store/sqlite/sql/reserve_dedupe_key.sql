-- Reserves a dedupe key, or takes over one whose lifetime has passed; no row means that it is taken. Primary key; takes
-- the write lock, so the lookup that follows sees the winner.
insert into posthaste_dedupe_keys (namespace, topic, dedupe_key, event_id, expires_at)
values (?1, ?2, ?3, ?4, {now} + ?5)
on conflict (namespace, topic, dedupe_key) do update set event_id = excluded.event_id, expires_at = excluded.expires_at
where posthaste_dedupe_keys.expires_at <= {now}
returning event_id
