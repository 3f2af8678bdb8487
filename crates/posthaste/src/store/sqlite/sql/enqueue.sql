-- Inserts one event; the seq is drawn under the write lock, so commit order is seq order. Takes the write lock.
insert into posthaste_events (available_at, key_hash, id, tenant_id, namespace, topic, event_type, key, aggregate_type,
  aggregate_id, dedupe_key, content_type, headers, payload)
values (coalesce(?1, {now} + ?2), ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15)
