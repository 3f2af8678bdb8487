-- Inserts one event and rings if a worker is asleep. What RETURNING says is evaluated after the insert, when the transaction
-- has its xid: see ring_needed().
insert into {schema}.events (available_at, id, tenant_id, namespace, topic, event_type, key, aggregate_type,
  aggregate_id, dedupe_key, content_type, headers, payload)
values (coalesce($1, clock_timestamp() + $2 * interval '1 microsecond'), $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)
returning case when {schema}.ring_needed() then {schema}.ring() end
