-- Inserts an event that is due at once and has neither tenant nor dedupe key nor a namespace of its own, as most have none: what is not
-- named need not be sent, converted and made ready for every event. Else as enqueue_one.sql.
insert into {schema}.events (available_at, id, topic, event_type, key, aggregate_type, aggregate_id, content_type, headers,
  payload)
values (case when {schema}.ring_needed() then {schema}.ring() end, $1, $2, $3, $4, $5, $6, $7, $8, $9)
