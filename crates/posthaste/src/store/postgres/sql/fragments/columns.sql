e.seq, e.id, nullif(e.namespace, 'default') as namespace, e.topic, e.event_type, e.key, e.aggregate_type,
  e.aggregate_id, e.tenant_id, e.dedupe_key, e.payload, nullif(e.content_type, 'application/json') as content_type, e.headers, e.available_at, e.created_at
