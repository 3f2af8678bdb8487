-- The inbox of consumers: which events each has done, and what it gave up on. Times are microseconds since 1970.

create table posthaste_inbox_meta (
  one     integer primary key default 1 check (one = 1),
  version integer not null
) strict;

create table posthaste_inbox_handled (
  consumer   text not null,
  event_id   text not null,
  marked_at  integer not null,
  expires_at integer not null,
  primary key (consumer, event_id)
) strict, without rowid;
create index posthaste_inbox_handled_expiry on posthaste_inbox_handled (expires_at);

-- `autoincrement`: the number of a letter that was removed never names another one.
create table posthaste_inbox_dead_letters (
  number       integer primary key autoincrement,
  consumer     text not null,
  event_id     text not null,
  topic        text,
  key          text,
  content_type text,
  headers      text not null,
  payload      blob not null,
  reason       text not null,
  attempts     integer not null,
  times        integer not null default 1,
  status       text not null default 'open' check (status in ('open', 'discarded', 'resent')),
  given_up_at  integer not null,
  decided_at   integer,
  unique (consumer, event_id)
) strict;
create index posthaste_inbox_dead_letters_of_consumer on posthaste_inbox_dead_letters (consumer, number);
create index posthaste_inbox_dead_letters_decided on posthaste_inbox_dead_letters (decided_at) where status <> 'open';
