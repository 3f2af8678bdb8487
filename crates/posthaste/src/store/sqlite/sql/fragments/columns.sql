e.seq, e.id, e.namespace, e.topic, e.event_type, e.key, e.aggregate_type, e.aggregate_id, e.tenant_id, e.dedupe_key,
  e.payload, e.content_type, e.headers, e.available_at, e.created_at
