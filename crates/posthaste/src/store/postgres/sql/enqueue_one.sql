-- Inserts one event and rings if a worker is asleep. The bell is part of a value, and always null there: RETURNING would make
-- the server keep a result and send it. The first column has drawn the xid by then, as it has before the seq: see ring_needed().
insert into {schema}.events (available_at, id, tenant_id, namespace, topic, event_type, key, aggregate_type,
  aggregate_id, dedupe_key, content_type, headers, payload)
values (coalesce(
    case when {schema}.ring_needed() then {schema}.ring() end,
    $1, clock_timestamp() + $2 * interval '1 microsecond'),
  $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)
