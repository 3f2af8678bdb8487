-- Forgets expired dedupe keys. Index: dedupe_keys_expiry; takes the write lock.
delete from posthaste_dedupe_keys
where (namespace, topic, dedupe_key) in (
  select k.namespace, k.topic, k.dedupe_key from posthaste_dedupe_keys k
  where k.expires_at <= {now}
  order by k.expires_at limit ?1
)
