-- Fails if a column that we write is missing or must not be seen. Reads nothing.
select id, position, namespace, topic, event_type, key, aggregate_type, aggregate_id, tenant_id, content_type, payload,
       headers, created_at, stored_at
from {table} limit 0
