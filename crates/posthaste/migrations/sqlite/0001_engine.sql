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
  -- How far the batch was handled (`strict` order, or claimed by event), and which events beyond that were handled, too.
  done_to integer not null default 0,
  done text,
  -- `strict` order: what holds it.
  retry_count integer not null default 0,
  retry_after integer,
  last_error text,
  steps integer not null default 0,
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
  -- How many steps at the event are finished, for a sink that has several: the next attempt begins there.
  steps integer not null default 0,
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

-- What people did: every verb of the admin module leaves a line, with what it took away.
create table posthaste_operations (
  id integer primary key autoincrement,
  at integer not null default (cast(unixepoch('subsec') * 1000000 as integer)),
  who text not null,
  verb text not null,
  subscription text,
  seq integer,
  event_id text,
  detail text not null default '{}'
) strict;

-- A subscription takes everything of it along. Not left to the foreign keys: SQLite heeds them only on connections that
-- ask for it.
create trigger posthaste_subscription_gone after delete on posthaste_subscriptions begin
  delete from posthaste_batches where subscription = old.id;
  delete from posthaste_deliveries where subscription = old.id;
  delete from posthaste_workers where subscription = old.id;
  delete from posthaste_lanes where subscription = old.id;
  delete from posthaste_filters where subscription = old.id;
end;

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

-- Where each lane of the generation that is at work stands. A lane of it that has finished waits at its stop mark for
-- the others.
create view posthaste_positions as
  select p.subscription, p.generation, p.lane, p.lanes, p.number, p.pos
  from posthaste_progress p
  where p.generation = (
    select min(a.generation) from posthaste_lanes a where a.subscription = p.subscription and a.finished_at is null
  );

-- What each lane still needs of the log: everything after the start of its oldest unfinished batch.
create view posthaste_needs as
  select p.subscription, p.generation, p.lane, min(p.pos, coalesce((
    select min(b.seq_from) - 1 from posthaste_batches b indexed by posthaste_batches_unfinished
    where b.subscription = p.subscription and b.generation = p.generation and b.lane = p.lane and b.finished_at is null
  ), p.pos)) as needs_after
  from posthaste_progress p
  where not p.finished;

-- The positions with what the subscription wants and where it began: everything small that a question about events
-- needs.
create view posthaste_readers as
  select p.subscription, s.name, p.generation, p.lane, p.lanes, p.pos, began.start_mark, f.namespaces, f.topics,
    f.event_types, f.tenants
  from posthaste_positions p
  join posthaste_subscriptions s on s.id = p.subscription
  join posthaste_filters f on f.subscription = s.id and f.version = s.filter_version
  join posthaste_lanes began on began.subscription = s.id and began.generation = 1 and began.lane = 0;

-- The events of batches that are not settled yet, by the filter each was claimed with. `held`: the head of a batch in
-- `strict` order, tried before.
create view posthaste_open_events as
  select b.subscription, s.name, e.seq, b.locked_by, b.locked_until, b.last_error, b.retry_count, b.retry_after,
    b.retry_count > 0 and not exists (
      select 1 from posthaste_events w
      where w.seq >= b.seq_from and w.seq > b.done_to and w.seq < e.seq
        and abs(coalesce(w.key_hash, w.seq) % l.lanes) = b.lane
        and (f.namespaces is null or w.namespace in (select value from json_each(f.namespaces)))
        and (f.topics is null or w.topic in (select value from json_each(f.topics)))
        and (f.event_types is null or w.event_type in (select value from json_each(f.event_types)))
        and (f.tenants is null or w.tenant_id in (select value from json_each(f.tenants)))
    ) as held
  from posthaste_subscriptions s
  join posthaste_batches b indexed by posthaste_batches_unfinished on b.subscription = s.id and b.finished_at is null
  join posthaste_filters f on f.subscription = s.id and f.version = b.filter_version
  join posthaste_lanes l on l.subscription = b.subscription and l.generation = b.generation and l.lane = b.lane
  cross join posthaste_events e on e.seq between b.seq_from and b.seq_to and e.seq > b.done_to
    and (b.done is null or e.seq not in (select value from json_each(b.done)))
    and abs(coalesce(e.key_hash, e.seq) % l.lanes) = b.lane
    and (f.namespaces is null or e.namespace in (select value from json_each(f.namespaces)))
    and (f.topics is null or e.topic in (select value from json_each(f.topics)))
    and (f.event_types is null or e.event_type in (select value from json_each(f.event_types)))
    and (f.tenants is null or e.tenant_id in (select value from json_each(f.tenants)));

-- The state of every event in every subscription that wants it. Four branches, each with a constant status or a short
-- list behind it, so that a question about pending or dead events does not walk over what was delivered.
create view posthaste_states as
  select s.name as subscription, d.seq, d.status, d.attempts, d.next_attempt_at, d.parked, d.locked_by, d.locked_until,
    d.last_error, d.edited_payload, d.history
  from posthaste_subscriptions s
  join posthaste_deliveries d on d.subscription = s.id
  union all
  select o.name, o.seq,
    case when o.held and o.retry_after > cast(unixepoch('subsec') * 1000000 as integer) then 'pending'
      else 'processing' end,
    case when o.held then o.retry_count else 0 end, case when o.held then o.retry_after end, 0, o.locked_by,
    o.locked_until, case when o.held then o.last_error end, null, null
  from posthaste_open_events o
  where not exists (select 1 from posthaste_deliveries d where d.subscription = o.subscription and d.seq = o.seq)
  union all
  select r.name, e.seq, 'pending', 0, null, 0, null, null, null, null, null
  from posthaste_readers r
  cross join posthaste_events e on e.seq > r.pos and abs(coalesce(e.key_hash, e.seq) % r.lanes) = r.lane
    and (r.namespaces is null or e.namespace in (select value from json_each(r.namespaces)))
    and (r.topics is null or e.topic in (select value from json_each(r.topics)))
    and (r.event_types is null or e.event_type in (select value from json_each(r.event_types)))
    and (r.tenants is null or e.tenant_id in (select value from json_each(r.tenants)))
  where not exists (select 1 from posthaste_deliveries d where d.subscription = r.subscription and d.seq = e.seq)
  union all
  select r.name, e.seq, 'delivered', 0, null, 0, null, null, null, null, null
  from posthaste_readers r
  cross join posthaste_events e on e.seq > r.start_mark and e.seq <= r.pos
    and abs(coalesce(e.key_hash, e.seq) % r.lanes) = r.lane
    and (r.namespaces is null or e.namespace in (select value from json_each(r.namespaces)))
    and (r.topics is null or e.topic in (select value from json_each(r.topics)))
    and (r.event_types is null or e.event_type in (select value from json_each(r.event_types)))
    and (r.tenants is null or e.tenant_id in (select value from json_each(r.tenants)))
  where not exists (select 1 from posthaste_deliveries d where d.subscription = r.subscription and d.seq = e.seq)
    and not exists (select 1 from posthaste_open_events o where o.subscription = r.subscription and o.seq = e.seq);

-- For people and for plain SQL: the same with the event itself and readable times. A payload that is not JSON is shown
-- in hexadecimal.
create view posthaste_event_status as
  select v.subscription, e.seq, e.id, e.namespace, e.topic, e.event_type, e.key, e.aggregate_type, e.aggregate_id,
    e.tenant_id, e.dedupe_key, e.content_type, e.headers,
    case when e.content_type like '%json%' then cast(e.payload as text) else hex(e.payload) end as payload,
    v.status, v.attempts,
    strftime('%Y-%m-%dT%H:%M:%fZ', coalesce(v.next_attempt_at, e.available_at, e.created_at) / 1e6, 'unixepoch')
      as next_attempt_at,
    v.parked, v.locked_by,
    strftime('%Y-%m-%dT%H:%M:%fZ', v.locked_until / 1e6, 'unixepoch') as locked_until,
    v.last_error,
    strftime('%Y-%m-%dT%H:%M:%fZ', e.available_at / 1e6, 'unixepoch') as available_at,
    strftime('%Y-%m-%dT%H:%M:%fZ', e.created_at / 1e6, 'unixepoch') as created_at
  from posthaste_states v
  join posthaste_events e on e.seq = v.seq;
