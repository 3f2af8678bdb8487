-- Who enqueued this key first. Primary key; reads only.
select event_id from posthaste_dedupe_keys where namespace = ?1 and topic = ?2 and dedupe_key = ?3
