-- Inserts many events in the order given, in one statement, and rings once if a worker is asleep.
with inserted as (
  insert into {schema}.events (available_at, id, tenant_id, namespace, topic, event_type, key, aggregate_type,
    aggregate_id, dedupe_key, content_type, headers, payload)
  select coalesce(available_at, clock_timestamp() + delay * interval '1 microsecond'), id, tenant_id, namespace, topic,
    event_type, key, aggregate_type, aggregate_id, dedupe_key, content_type, headers, payload
  from unnest($1::timestamptz[], $2::bigint[], $3::uuid[], $4::uuid[], $5::text[], $6::text[], $7::text[], $8::text[],
    $9::text[], $10::text[], $11::text[], $12::text[], $13::jsonb[], $14::bytea[])
    with ordinality as input (available_at, delay, id, tenant_id, namespace, topic, event_type, key, aggregate_type,
      aggregate_id, dedupe_key, content_type, headers, payload, place)
  order by place
  returning true as done
)
select case when (select count(*) from inserted) > 0 and {schema}.ring_needed() then {schema}.ring() end
