-- Posthaste's tables, version 1. SQLite has no schemas, so every name begins with `posthaste_`.
-- Forward only: a released migration is never edited.
--
-- Times are whole microseconds since 1970, by SQLite's own clock; ids and tokens are hyphenated lower-case text; lists
-- are JSON. One writer at a time means that commit order is `seq` order, so a mark is just a seq: everything up to it
-- was seen.

create table posthaste_meta (
  one integer primary key default 1 check (one = 1),
  version integer not null,
  -- Retention has looked at everything up to this seq.
  retained_to integer not null default 0
) strict;

-- The log. A row is never updated. AUTOINCREMENT: the seq of a deleted event is never given to another one, or marks
-- would skip it. The payload comes last, so that a look at the other columns never reads its overflow pages.
create table posthaste_events (
  seq integer primary key autoincrement,
  created_at integer not null default (cast(unixepoch('subsec') * 1000000 as integer)),
  available_at integer,
  -- The hash that spreads keys over lanes, computed at enqueue: SQLite has no hash function.
  key_hash integer,
  id text not null,
  tenant_id text,
  namespace text not null default 'default',
  topic text not null,
  event_type text,
  key text,
  aggregate_type text,
  aggregate_id text,
  dedupe_key text,
  content_type text not null default 'application/json',
  headers text,
  payload blob not null,
  check ((key is null) = (key_hash is null))
) strict;
create unique index posthaste_events_id on posthaste_events (id);

-- What was already enqueued, with a life of its own: deleting old events must not forget it.
create table posthaste_dedupe_keys (
  namespace text not null,
  topic text not null,
  dedupe_key text not null,
  event_id text not null,
  expires_at integer not null,
  primary key (namespace, topic, dedupe_key)
) strict, without rowid;
create index posthaste_dedupe_keys_expiry on posthaste_dedupe_keys (expires_at);

create table posthaste_subscriptions (
  id integer primary key autoincrement,
  name text not null unique,
  ordering text not null check (ordering in ('key', 'none', 'strict')),
  claim_by text not null check (claim_by in ('batch', 'event')),
  after_dead text not null check (after_dead in ('skip', 'block')),
  lanes integer not null check (lanes between 1 and 256),
  filter_version integer not null default 1,
  -- What the program declared, and what an operator put over it.
  declared text not null,
  overrides text not null default '{}',
  paused_at integer,
  created_at integer not null default (cast(unixepoch('subsec') * 1000000 as integer)),
  updated_at integer not null default (cast(unixepoch('subsec') * 1000000 as integer))
) strict;

-- Every version of a filter is kept: a batch is re-read with the filter it was claimed with. Null means all.
create table posthaste_filters (
  subscription integer not null references posthaste_subscriptions on delete cascade,
  version integer not null,
  namespaces text,
  topics text,
  event_types text,
  tenants text,
  primary key (subscription, version)
) strict, without rowid;

-- One owner each, in `key` and `strict` order. A generation is one split of the keys into lanes.
create table posthaste_lanes (
  subscription integer not null references posthaste_subscriptions on delete cascade,
  generation integer not null,
  lane integer not null,
  lanes integer not null,
  -- Everything up to this seq counts as seen before the first batch.
  start_mark integer not null,
  -- Set when the lanes are split anew: this generation ends exactly here.
  stop_mark integer,
  created_at integer not null default (cast(unixepoch('subsec') * 1000000 as integer)),
  finished_at integer,
  token text,
  locked_by text,
  locked_until integer,
  primary key (subscription, generation, lane)
) strict, without rowid;

-- Leased pages. Append-only in the key: the newest row of a lane is its progress (everything up to its `seq_to` was
-- claimed), and `number + 1` can be inserted once only. Finished rows are the journal of deliveries.
create table posthaste_batches (
  subscription integer not null references posthaste_subscriptions on delete cascade,
  generation integer not null,
  lane integer not null,
  number integer not null,
  seq_from integer not null,
  seq_to integer not null,
  count integer not null,
  filter_version integer not null,
  claims integer not null default 1,
  token text,
  locked_by text,
  locked_until integer,
  -- `strict` order: how far the batch was handled, and what holds it.
  done_to integer not null default 0,
  retry_count integer not null default 0,
  retry_after integer,
  last_error text,
  claimed_at integer not null default (cast(unixepoch('subsec') * 1000000 as integer)),
  finished_at integer,
  primary key (subscription, generation, lane, number)
) strict, without rowid;
create index posthaste_batches_unfinished on posthaste_batches (subscription, generation, lane, number)
  where finished_at is null;

-- The state of one (subscription, event) that left the happy path: pending -> processing -> (gone | pending | dead).
create table posthaste_deliveries (
  subscription integer not null references posthaste_subscriptions on delete cascade,
  seq integer not null,
  event_id text not null,
  -- Null for events that have no place in the order of a key (no key, delayed, or order `none`).
  key text,
  status text not null check (status in ('pending', 'processing', 'dead')),
  -- Waits behind an earlier event of its key; not in the index of what is due.
  parked integer not null default 0 check (parked in (0, 1)),
  -- A worker was lost while it held this event: from now on it is claimed alone.
  solo integer not null default 0 check (solo in (0, 1)),
  attempts integer not null default 0,
  next_attempt_at integer not null default (cast(unixepoch('subsec') * 1000000 as integer)),
  token text,
  locked_by text,
  locked_until integer,
  last_error text,
  history text not null default '[]',
  created_at integer not null default (cast(unixepoch('subsec') * 1000000 as integer)),
  updated_at integer not null default (cast(unixepoch('subsec') * 1000000 as integer)),
  -- Set when an operator edited the event before a retry; the log itself keeps what was enqueued.
  edited_payload blob,
  primary key (subscription, seq)
) strict;
create index posthaste_deliveries_due on posthaste_deliveries (subscription, next_attempt_at, seq)
  where status = 'pending' and not parked;
create index posthaste_deliveries_leased on posthaste_deliveries (subscription, locked_until)
  where status = 'processing';
create index posthaste_deliveries_dead on posthaste_deliveries (subscription, seq) where status = 'dead';
create index posthaste_deliveries_key on posthaste_deliveries (subscription, key, seq) where key is not null;
create index posthaste_deliveries_event on posthaste_deliveries (seq);
-- Only rows that wait pay for it; counting them must not walk over the dead.
create index posthaste_deliveries_parked on posthaste_deliveries (subscription, key, seq) where parked;

-- Who is alive, so that workers can share the lanes fairly.
create table posthaste_workers (
  subscription integer not null references posthaste_subscriptions on delete cascade,
  name text not null,
  seen_until integer not null,
  primary key (subscription, name)
) strict, without rowid;

-- Where each lane stands: everything up to `pos` was claimed, at `moved_at` for the last time.
create view posthaste_progress as
  select l.subscription, l.generation, l.lane, l.lanes, l.finished_at is not null as finished,
    coalesce(b.number, 0) as number,
    coalesce(b.seq_to, l.start_mark) as pos,
    coalesce(b.claimed_at, l.created_at) as moved_at
  from posthaste_lanes l
  left join posthaste_batches b
    on b.subscription = l.subscription and b.generation = l.generation and b.lane = l.lane
    and b.number = (
      select max(n.number) from posthaste_batches n
      where n.subscription = l.subscription and n.generation = l.generation and n.lane = l.lane
    );

-- For people and for plain SQL: every event with its state in every subscription that wants it, and readable times. A
-- payload that is not JSON is shown in hexadecimal.
create view posthaste_event_status as
  select s.name as subscription, e.seq, e.id, e.namespace, e.topic, e.event_type, e.key, e.aggregate_type,
    e.aggregate_id, e.tenant_id, e.dedupe_key, e.content_type, e.headers,
    case when e.content_type like '%json%' then cast(e.payload as text) else hex(e.payload) end as payload,
    case
      when d.seq is not null then d.status
      when b.number is not null then 'processing'
      -- Behind every lane that still runs and would read it: also behind those that a split is about to end.
      when not exists (
        select 1 from posthaste_progress p
        where p.subscription = s.id and not p.finished and e.seq > p.pos
          and abs(coalesce(e.key_hash, e.seq) % p.lanes) = p.lane
      ) then 'delivered'
      else 'pending'
    end as status,
    coalesce(d.attempts, b.retry_count, 0) as attempts,
    strftime('%Y-%m-%dT%H:%M:%fZ',
      coalesce(d.next_attempt_at, b.retry_after, e.available_at, e.created_at) / 1e6, 'unixepoch') as next_attempt_at,
    coalesce(d.parked, 0) as parked,
    coalesce(d.locked_by, b.locked_by) as locked_by,
    strftime('%Y-%m-%dT%H:%M:%fZ', coalesce(d.locked_until, b.locked_until) / 1e6, 'unixepoch') as locked_until,
    coalesce(d.last_error, b.last_error) as last_error,
    strftime('%Y-%m-%dT%H:%M:%fZ', e.available_at / 1e6, 'unixepoch') as available_at,
    strftime('%Y-%m-%dT%H:%M:%fZ', e.created_at / 1e6, 'unixepoch') as created_at
  from posthaste_subscriptions s
  join posthaste_filters f on f.subscription = s.id and f.version = s.filter_version
  join posthaste_events e on (f.namespaces is null or e.namespace in (select value from json_each(f.namespaces)))
    and (f.topics is null or e.topic in (select value from json_each(f.topics)))
    and (f.event_types is null or e.event_type in (select value from json_each(f.event_types)))
    and (f.tenants is null or e.tenant_id in (select value from json_each(f.tenants)))
  left join posthaste_deliveries d on d.subscription = s.id and d.seq = e.seq
  left join posthaste_batches b on b.subscription = s.id and (b.generation, b.lane, b.number) = (
    select o.generation, o.lane, o.number
    from posthaste_batches o indexed by posthaste_batches_unfinished
    join posthaste_lanes l on l.subscription = o.subscription and l.generation = o.generation and l.lane = o.lane
    where o.subscription = s.id and o.finished_at is null and e.seq between o.seq_from and o.seq_to
      and e.seq > o.done_to and abs(coalesce(e.key_hash, e.seq) % l.lanes) = o.lane
    limit 1
  );
