-- The event store. `position` is the order of appending; it has gaps where an event came twice or an append was undone.
create table {table} (
  id             uuid primary key,
  position       bigserial not null unique,
  namespace      text not null,
  topic          text not null,
  event_type     text,
  key            text,
  aggregate_type text,
  aggregate_id   text,
  tenant_id      uuid,
  content_type   text not null,
  payload        bytea not null,
  headers        jsonb not null,
  created_at     timestamptz not null,
  stored_at      timestamptz not null default clock_timestamp()
);
create index on {table} (aggregate_type, aggregate_id, position);
