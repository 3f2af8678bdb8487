-- Inserts one event and rings if a worker is asleep. The bell is read after the insert (the row must come out of the
-- insert before the outer query is evaluated), when the transaction has its xid: see ring_needed().
with inserted as (
  insert into {schema}.events (available_at, id, tenant_id, namespace, topic, event_type, key, aggregate_type,
    aggregate_id, dedupe_key, content_type, headers, payload)
  values (coalesce($1, clock_timestamp() + $2 * interval '1 microsecond'), $3, $4, $5, $6, $7, $8, $9, $10, $11, $12,
    $13, $14)
  returning true as done
)
select case when {schema}.ring_needed() then {schema}.ring() end from inserted
