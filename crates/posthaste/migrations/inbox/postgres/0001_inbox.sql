-- The inbox of consumers: which events each has done, and what it gave up on.

create table {schema}.inbox_meta (
  one     boolean primary key default true check (one),
  version integer not null
);

create table {schema}.handled (
  consumer   text not null,
  event_id   text not null,
  marked_at  timestamptz not null default clock_timestamp(),
  expires_at timestamptz not null,
  primary key (consumer, event_id)
);
create index handled_expiry on {schema}.handled (expires_at);

-- Headers are json and not jsonb: they are kept as they came, in order, and may hold what jsonb refuses.
create table {schema}.dead_letters (
  number       bigint generated always as identity primary key,
  consumer     text not null,
  event_id     text not null,
  topic        text,
  key          text,
  content_type text,
  headers      json not null,
  payload      bytea not null,
  reason       text not null,
  attempts     bigint not null,
  times        bigint not null default 1,
  status       text not null default 'open' check (status in ('open', 'discarded', 'resent')),
  given_up_at  timestamptz not null default clock_timestamp(),
  decided_at   timestamptz,
  unique (consumer, event_id)
);
create index dead_letters_of_consumer on {schema}.dead_letters (consumer, number);
create index dead_letters_decided on {schema}.dead_letters (decided_at) where status <> 'open';
