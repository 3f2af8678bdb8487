-- Forgets expired dedupe keys; one that a producer takes over at this moment is skipped. Index: dedupe_keys_expiry.
with expired as (
  select k.namespace, k.topic, k.dedupe_key from {schema}.dedupe_keys k
  where k.expires_at <= clock_timestamp()
  order by k.expires_at limit $1
  for update skip locked
)
delete from {schema}.dedupe_keys k using expired x
where k.namespace = x.namespace and k.topic = x.topic and k.dedupe_key = x.dedupe_key
