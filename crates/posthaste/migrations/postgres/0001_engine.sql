-- Posthaste's tables, version 1. `{schema}` is replaced by the schema's name; nothing else ever is.
-- Forward only: a released migration is never edited.

create table {schema}.meta (
  one boolean primary key default true check (one),
  version integer not null,
  -- pg_control_system().system_identifier when the marks were taken: xids of another cluster mean nothing here.
  system_identifier bigint not null,
  -- Retention has looked at everything up to this seq.
  retained_to bigint not null default 0
);

-- The log. A row is never updated (rebase after a restore is the one exception).
--
-- `xid` must stay the first column: defaults are evaluated in column order, so a transaction has its xid before it
-- draws a seq. `seq` is identity ALWAYS with CACHE 1: a plain default or a cache would let a seq be drawn early, and
-- that order loses events.
create table {schema}.events (
  xid xid8 not null default pg_current_xact_id(),
  seq bigint generated always as identity (sequence name {schema}.event_seq cache 1),
  created_at timestamptz not null default clock_timestamp(),
  available_at timestamptz,
  id uuid not null,
  tenant_id uuid,
  namespace text collate "C" not null default 'default',
  topic text collate "C" not null,
  event_type text collate "C",
  key text collate "C",
  aggregate_type text collate "C",
  aggregate_id text collate "C",
  dedupe_key text collate "C",
  content_type text collate "C" not null default 'application/json',
  headers jsonb,
  payload bytea not null,
  primary key (seq)
) with (autovacuum_vacuum_insert_scale_factor = 0.02, autovacuum_freeze_min_age = 10000000);

-- Finds the events of one late xid, an event by id, and a place in time: three minima and maxima for 32 pages. Three
-- btrees would write three more entries for every event; this writes next to nothing. There is no BRIN for xid8; its bytes, the
-- highest first, are in the same order, and cost an insert less than its number by way of text.
create index events_places on {schema}.events
  using brin (xid8send(xid), id, created_at) with (pages_per_range = 32, autosummarize = on);

-- What was already enqueued, with a life of its own: deleting old events must not forget it.
create table {schema}.dedupe_keys (
  namespace text collate "C" not null,
  topic text collate "C" not null,
  dedupe_key text collate "C" not null,
  event_id uuid not null,
  expires_at timestamptz not null,
  primary key (namespace, topic, dedupe_key)
);
create index dedupe_keys_expiry on {schema}.dedupe_keys (expires_at);

-- A sign that a worker is asleep, as the epoch in milliseconds until which it is up. A sequence because its value is
-- seen at once by every snapshot, also by a producer in REPEATABLE READ.
create sequence {schema}.doorbell minvalue 0 start 0;

-- From when on a producer rings, as the epoch in milliseconds: the largest number there is while no sign is up. And how far the log
-- had grown at the last ring.
create sequence {schema}.next_ring minvalue 0 start 0;
create sequence {schema}.last_ring_seq minvalue 0 start 0;

create table {schema}.subscriptions (
  id bigint generated always as identity primary key,
  name text collate "C" not null unique,
  ordering text not null check (ordering in ('key', 'none', 'strict')),
  claim_by text not null check (claim_by in ('batch', 'event')),
  after_dead text not null check (after_dead in ('skip', 'block')),
  lanes integer not null check (lanes between 1 and 256),
  filter_version integer not null default 1,
  -- What the program declared, and what an operator put over it.
  declared jsonb not null,
  overrides jsonb not null default '{}',
  paused_at timestamptz,
  created_at timestamptz not null default clock_timestamp(),
  updated_at timestamptz not null default clock_timestamp()
);

-- Every version of a filter is kept: a batch is re-read with the filter it was claimed with.
create table {schema}.filters (
  subscription bigint not null references {schema}.subscriptions on delete cascade,
  version integer not null,
  namespaces text[],
  topics text[],
  event_types text[],
  tenants uuid[],
  primary key (subscription, version)
);

-- Points in the log between "already seen" and "not yet".
create table {schema}.marks (
  id bigint generated always as identity primary key,
  snapshot pg_snapshot not null,
  floor_seq bigint not null,
  floor_xid xid8 not null,
  -- The last seq drawn when the snapshot was taken: nothing visible in it lies above.
  ceil_seq bigint not null,
  -- Pairs (xid, seq): an xid above the first has drawn no seq up to the second. Bounds the search for late xids.
  steps bigint[] not null,
  -- A replay: events from this seq on are read again although they are visible in the snapshot.
  replay_from bigint,
  taken_at timestamptz not null default clock_timestamp()
);

-- One owner each, in `key` and `strict` order. A generation is one split of the keys into lanes.
create table {schema}.lanes (
  subscription bigint not null references {schema}.subscriptions on delete cascade,
  generation integer not null,
  lane integer not null,
  lanes integer not null,
  start_mark bigint not null references {schema}.marks,
  -- Set when the lanes are split anew: this generation ends exactly here.
  stop_mark bigint references {schema}.marks,
  finished_at timestamptz,
  token uuid,
  locked_by text,
  locked_until timestamptz,
  primary key (subscription, generation, lane)
) with (fillfactor = 50);

-- Leased pages. Append-only in the key: the newest row of a lane is its progress, and inserting `number + 1` is the
-- compare-and-set that keeps two claimers apart. Finished rows are the journal of deliveries.
create table {schema}.batches (
  subscription bigint not null,
  generation integer not null,
  lane integer not null,
  number bigint not null,
  lo bigint not null,
  hi bigint not null,
  seq_from bigint not null,
  seq_to bigint not null,
  count integer not null,
  closes_window boolean not null,
  filter_version integer not null,
  claims integer not null default 1,
  token uuid,
  locked_by text,
  locked_until timestamptz,
  -- How far the batch was handled (`strict` order, or claimed by event), and which events beyond that were handled, too.
  done_to bigint not null default 0,
  done bigint[],
  -- How often that was recorded: whoever goes on from a record that a fail-over has undone must notice it.
  records integer not null default 0,
  -- `strict` order: what holds it.
  retry_count integer not null default 0,
  retry_after timestamptz,
  last_error text,
  steps smallint not null default 0,
  -- Never changes: tells this row from one of the same number that a fail-over has undone.
  inserted_at timestamptz not null default clock_timestamp(),
  claimed_at timestamptz not null default clock_timestamp(),
  finished_at timestamptz,
  primary key (subscription, generation, lane, number)
) with (fillfactor = 70);
create index batches_unfinished on {schema}.batches (subscription, generation, lane, number) where finished_at is null;

-- The state of one (subscription, event) that left the happy path: pending -> processing -> (gone | pending | dead).
create table {schema}.deliveries (
  subscription bigint not null references {schema}.subscriptions on delete cascade,
  seq bigint not null,
  event_id uuid not null,
  -- Null for events that have no place in the order of a key (no key, delayed, or order `none`).
  key text collate "C",
  status text not null check (status in ('pending', 'processing', 'dead')),
  -- Waits behind an earlier event of its key; not in the index of what is due.
  parked boolean not null default false,
  -- A worker was lost while it held this event: from now on it is claimed alone.
  solo boolean not null default false,
  attempts integer not null default 0,
  -- How many steps at the event are finished, for a sink that has several: the next attempt begins there.
  steps smallint not null default 0,
  next_attempt_at timestamptz not null default clock_timestamp(),
  token uuid,
  locked_by text,
  locked_until timestamptz,
  last_error text,
  history jsonb not null default '[]',
  -- Set when an operator edited the event before a retry; the log itself keeps what was enqueued.
  edited_payload bytea,
  created_at timestamptz not null default clock_timestamp(),
  updated_at timestamptz not null default clock_timestamp(),
  primary key (subscription, seq)
) with (fillfactor = 80);
create index deliveries_due on {schema}.deliveries (subscription, next_attempt_at, seq)
  where status = 'pending' and not parked;
create index deliveries_leased on {schema}.deliveries (subscription, locked_until) where status = 'processing';
create index deliveries_dead on {schema}.deliveries (subscription, seq) where status = 'dead';
create index deliveries_key on {schema}.deliveries (subscription, key, seq) where key is not null;
create index deliveries_event on {schema}.deliveries (seq);
-- Only rows that wait pay for it; counting them must not walk over the dead.
create index deliveries_parked on {schema}.deliveries (subscription, key, seq) where parked;

-- Who is alive, so that workers can share the lanes fairly.
create table {schema}.workers (
  subscription bigint not null references {schema}.subscriptions on delete cascade,
  name text not null,
  seen_until timestamptz not null,
  primary key (subscription, name)
) with (fillfactor = 50);

-- What people did: every verb of the admin module leaves a line, with what it took away.
create table {schema}.operations (
  id bigint generated always as identity primary key,
  at timestamptz not null default clock_timestamp(),
  who text not null,
  verb text not null,
  subscription text,
  seq bigint,
  event_id uuid,
  detail jsonb not null default '{}'
);

-- Takes a mark. Must run in a transaction of its own that has no xid yet, with READ COMMITTED, so that every step has
-- its own snapshot: with an xid drawn before step 1, events that this transaction enqueues would be lost.
create function {schema}.take_mark(
  out floor_seq bigint, out floor_xid xid8, out snapshot pg_snapshot, out ceil_seq bigint, out durable boolean
) language plpgsql volatile as $$
declare
  written pg_lsn;
begin
  if pg_current_xact_id_if_assigned() is not null then
    raise exception 'a mark must be taken before the transaction writes or locks anything';
  end if;
  if current_setting('transaction_isolation') <> 'read committed' then
    raise exception 'a mark must be taken in READ COMMITTED';
  end if;
  -- Not `select last_value`: now and then nextval() writes a value 32 too high first, and only a lock hides that.
  floor_seq := coalesce(pg_sequence_last_value('{schema}.event_seq'), 0);
  floor_xid := pg_current_xact_id();
  select pg_current_snapshot() into snapshot;
  ceil_seq := coalesce(pg_sequence_last_value('{schema}.event_seq'), 0);
  -- Producers that do not wait for the disk are seen before a crash can no longer undo them. Where commits wait for
  -- replicas, the own disk says too little.
  written := pg_current_wal_insert_lsn();
  durable := pg_current_wal_flush_lsn() >= written and current_setting('synchronous_standby_names') = '';
end $$;

-- Whether a worker is asleep and wants a ring. Read when the xid is drawn: a transaction that reads "no" has its xid
-- already, so the worker that puts up the sign next will see it running and poll until it has ended.
--
-- PostgreSQL refuses PREPARE TRANSACTION after a NOTIFY: producers that commit in two phases say
-- `set local posthaste.ring = off` first, and are found by polling.
--
-- Every event pays for this, and most of that is not the answer but getting the expression ready: so it is one number and one clock, and
-- whatever else must be known is asked by ring(). Without FROM, so that it becomes part of the statement that calls it: planning it
-- for every event would cost more than the insert.
create function {schema}.ring_needed() returns boolean language sql volatile as $$
  select pg_sequence_last_value('{schema}.next_ring') <= date_part('epoch', clock_timestamp()) * 1000
$$;

-- Rings, unless the sign has come down by itself: then whoever notices it first says so to all others. With the rights of its
-- owner, because a producer may not write to the sequences otherwise. Always null, and of a type that suits the insert it is part of.
--
-- A NOTIFY makes the commit wait for every other one, disk included. So each ring uses up 5 ms, and nobody rings once 40 ms more
-- than have passed are used up: 200 times a second at most, or a few times at once after a while. A ring that more than 16 events
-- have come before uses up 20 ms: nobody gains by more than 50 wake-ups a second for so many. `next_ring` is the time up to which
-- they are used up, less those 40 ms. Whoever heard a ring looks until all that came just after it have ended.
create function {schema}.ring() returns timestamptz language plpgsql volatile security definer
set search_path = pg_catalog as $$
declare
  now_ms bigint := extract(epoch from clock_timestamp()) * 1000;
  grown_to bigint := coalesce(pg_sequence_last_value('{schema}.event_seq'), 0);
  many boolean := grown_to - coalesce(pg_sequence_last_value('{schema}.last_ring_seq'), 0) > 16;
begin
  if current_setting('posthaste.ring', true) = 'off' then
    return null;
  end if;
  if coalesce(pg_sequence_last_value('{schema}.doorbell'), 0) <= now_ms then
    perform setval('{schema}.next_ring', 9223372036854775807);
    -- A worker that has put up its sign meanwhile wrote there first and then here, where it has just been undone.
    if coalesce(pg_sequence_last_value('{schema}.doorbell'), 0) <= now_ms then
      return null;
    end if;
  end if;
  perform setval('{schema}.last_ring_seq', grown_to);
  perform setval('{schema}.next_ring',
    greatest(least(pg_sequence_last_value('{schema}.next_ring'), now_ms), now_ms - 40) + case when many then 20 else 5 end);
  perform pg_notify('{schema}', '');
  return null;
end $$;

-- An event id: a UUID of version 7.
create function {schema}.new_event_id() returns uuid language sql volatile as $$
  select encode(
    set_bit(set_bit(
      overlay(uuid_send(gen_random_uuid())
        placing substring(int8send((extract(epoch from clock_timestamp()) * 1000)::bigint) from 3) from 1 for 6),
      52, 1), 53, 1), 'hex')::uuid
$$;

-- Enqueue for producers in any language, inside their own transaction:
--   select id, duplicate from {schema}.enqueue(topic => 'orders', payload => '{"n":1}', key => 'order-1');
-- Exactly one of payload (JSON text) and payload_bytes. A duplicate is an answer, not an error.
create function {schema}.enqueue(
  topic text,
  payload text default null,
  payload_bytes bytea default null,
  namespace text default 'default',
  event_type text default null,
  key text default null,
  aggregate_type text default null,
  aggregate_id text default null,
  tenant_id uuid default null,
  dedupe_key text default null,
  content_type text default null,
  headers jsonb default null,
  available_at timestamptz default null,
  dedupe_for interval default interval '30 days',
  out id uuid,
  out duplicate boolean
) language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_variable
declare
  body bytea;
  problem text;
begin
  problem := case
    when coalesce(topic, '') = '' then 'topic must not be empty'
    when coalesce(namespace, '') = '' then 'namespace must not be empty'
    when (payload is null) = (payload_bytes is null) then 'give exactly one of payload and payload_bytes'
    when event_type = '' or key = '' or aggregate_type = '' or aggregate_id = '' or dedupe_key = ''
      or content_type = '' then 'an optional text must be null rather than empty'
    when octet_length(topic) > 255 or octet_length(namespace) > 255 or octet_length(event_type) > 255
      or octet_length(aggregate_type) > 255 or octet_length(content_type) > 255
      then 'topic, namespace, event_type, aggregate_type and content_type may have at most 255 bytes'
    when octet_length(key) > 1024 or octet_length(aggregate_id) > 1024 or octet_length(dedupe_key) > 1024
      then 'key, aggregate_id and dedupe_key may have at most 1024 bytes'
    when concat(topic, namespace, event_type, key, aggregate_type, aggregate_id, dedupe_key, content_type)
      ~ '[[:cntrl:]]' then 'names and keys must not contain control characters'
    when octet_length(payload) > 1048576 or octet_length(payload_bytes) > 1048576
      then 'the payload may have at most 1048576 bytes'
    when tenant_id is not null and dedupe_key is not null
      and not starts_with(dedupe_key, tenant_id::text || '/')
      and not starts_with(dedupe_key, replace(tenant_id::text, '-', '') || '/')
      then format('the dedupe key must begin with the tenant''s id and a slash: %s/', tenant_id)
  end;
  if problem is null and headers is not null then
    problem := case
      when jsonb_typeof(headers) <> 'object' then 'headers must be a JSON object of texts'
      when exists (select 1 from jsonb_each(headers) h where jsonb_typeof(h.value) <> 'string')
        then 'every header value must be a text'
      when exists (select 1 from jsonb_each_text(headers) h
        where h.key !~ '^[A-Za-z0-9!#$%&''*+.^_`|~-]+$' or h.value ~ '[\x01-\x08\x0a-\x1f\x7f]')
        then 'a header name must be letters, digits and -_. only, and a value must not contain line breaks'
      when (select count(distinct lower(h.key)) < count(*) from jsonb_each_text(headers) h)
        then 'a header is given twice: names are compared in lower case'
      when (select count(*) > 64 or sum(octet_length(h.key) + octet_length(h.value)) > 16384
        from jsonb_each_text(headers) h) then 'headers may have at most 64 entries and 16384 bytes'
    end;
    if problem is null then
      select jsonb_object_agg(lower(h.key), h.value) into headers from jsonb_each_text(headers) h;
    end if;
  end if;
  if problem is not null then
    raise exception using errcode = '22023', message = 'posthaste: ' || problem;
  end if;
  if payload is not null then
    perform payload::json;
    body := convert_to(payload, 'UTF8');
  else
    body := payload_bytes;
  end if;
  id := {schema}.new_event_id();
  duplicate := false;
  if dedupe_key is not null then
    loop
      insert into {schema}.dedupe_keys as d (namespace, topic, dedupe_key, event_id, expires_at)
        values (namespace, topic, dedupe_key, id, clock_timestamp() + dedupe_for) on conflict do nothing;
      exit when found;
      update {schema}.dedupe_keys d set event_id = id, expires_at = clock_timestamp() + dedupe_for
        where d.namespace = namespace and d.topic = topic and d.dedupe_key = dedupe_key
          and d.expires_at <= clock_timestamp();
      exit when found;
      select d.event_id into id from {schema}.dedupe_keys d
        where d.namespace = namespace and d.topic = topic and d.dedupe_key = dedupe_key;
      if found then
        duplicate := true;
        return;
      end if;
      -- The key expired and was removed in between: try again with a fresh id.
      id := {schema}.new_event_id();
    end loop;
  end if;
  insert into {schema}.events (available_at, id, tenant_id, namespace, topic, event_type, key, aggregate_type,
      aggregate_id, dedupe_key, content_type, headers, payload)
    values (available_at, id, tenant_id, namespace, topic, event_type, coalesce(key, aggregate_id), aggregate_type,
      aggregate_id, dedupe_key,
      coalesce(content_type, case when payload is null then 'application/octet-stream' else 'application/json' end),
      nullif(headers, '{}'), body);
  if {schema}.ring_needed() then
    perform {schema}.ring();
  end if;
end $$;

-- Where each lane stands: `lo` is the mark below which everything was claimed; while a window is open, also what is
-- visible in `hi` up to `pos`.
create view {schema}.progress as
  select l.subscription, l.generation, l.lane, l.lanes, l.finished_at is not null as finished,
    coalesce(b.number, 0) as number, b.inserted_at,
    case when b.number is null then l.start_mark when b.closes_window then b.hi else b.lo end as lo,
    case when not b.closes_window then b.hi end as hi,
    case when not b.closes_window then b.seq_to else 0 end as pos
  from {schema}.lanes l
  left join lateral (
    select n.number, n.inserted_at, n.lo, n.hi, n.seq_to, n.closes_window from {schema}.batches n
    where n.subscription = l.subscription and n.generation = l.generation and n.lane = l.lane
    order by n.number desc limit 1
  ) b on true;

-- The lane of a key. hashtextextended is what hash partitioning uses, so it keeps its values across upgrades. Events
-- without a key have no order and are spread by their seq.
create function {schema}.lane_of(key text, seq bigint, lanes integer) returns integer language sql immutable as $$
  select case when lanes = 1 then 0
    else (((coalesce(hashtextextended(key collate "C", 0), seq) % lanes) + lanes) % lanes)::integer end
$$;

-- A seq that lies below everything a mark leaves unseen: the floor, unless transactions were running whose events may lie
-- deeper. The steps bound how deep.
create function {schema}.unseen_after(
  snapshot pg_snapshot, floor_seq bigint, floor_xid xid8, steps bigint[], replay_from bigint
) returns bigint language sql immutable as $$
  select least(floor_seq, replay_from - 1, case when running.oldest is not null then coalesce(
    (select max(steps[i + 1]) from generate_series(1, cardinality(steps), 2) i where steps[i] < running.oldest), 0) end)
  from (
    select least(min((x::text)::bigint), case when pg_snapshot_xmax(snapshot) < floor_xid
      then (pg_snapshot_xmax(snapshot)::text)::bigint end) as oldest
    from pg_snapshot_xip(snapshot) x where x <> floor_xid
  ) running
$$;

-- Whether a mark has an event behind it.
create function {schema}.behind(xid xid8, seq bigint, snapshot pg_snapshot, replay_from bigint) returns boolean
language sql immutable as $$
  select pg_visible_in_snapshot(xid, snapshot) and (replay_from is null or seq < replay_from)
$$;

-- Where each lane of the generation that is at work stands, marks included. A lane of it that has finished waits at its
-- stop mark for the others.
create view {schema}.positions as
  select p.subscription, p.generation, p.lane, p.lanes, p.number, p.pos,
    lo.id as lo_id, lo.snapshot as lo_snapshot, lo.floor_seq as lo_floor_seq, lo.floor_xid as lo_floor_xid,
    lo.ceil_seq as lo_ceil_seq, lo.steps as lo_steps, lo.replay_from as lo_replay_from,
    hi.id as hi_id, hi.snapshot as hi_snapshot, hi.floor_seq as hi_floor_seq, hi.floor_xid as hi_floor_xid,
    hi.ceil_seq as hi_ceil_seq, hi.steps as hi_steps, hi.replay_from as hi_replay_from,
    {schema}.unseen_after(lo.snapshot, lo.floor_seq, lo.floor_xid, lo.steps, lo.replay_from) as unseen_after
  from {schema}.progress p
  join {schema}.marks lo on lo.id = p.lo
  left join {schema}.marks hi on hi.id = p.hi
  where p.generation = (
    select min(a.generation) from {schema}.lanes a where a.subscription = p.subscription and a.finished_at is null
  );

-- What each lane still needs of the log: everything that is not behind the start of its oldest unfinished window.
create view {schema}.needs as
  select p.subscription, p.generation, p.lane, m.snapshot, m.replay_from, m.ceil_seq,
    {schema}.unseen_after(m.snapshot, m.floor_seq, m.floor_xid, m.steps, m.replay_from) as unseen_after
  from {schema}.progress p
  left join lateral (
    select b.lo from {schema}.batches b
    where b.subscription = p.subscription and b.generation = p.generation and b.lane = p.lane and b.finished_at is null
    order by b.number limit 1
  ) oldest on true
  join {schema}.marks m on m.id = coalesce(oldest.lo, p.lo)
  where not p.finished;

-- The same with what the subscription wants and where it began: everything small that a question about events needs.
create view {schema}.readers as
  select p.*, s.name, f.namespaces, f.topics, f.event_types, f.tenants, start.snapshot as start_snapshot,
    start.replay_from as start_replay_from
  from {schema}.positions p
  join {schema}.subscriptions s on s.id = p.subscription
  join {schema}.filters f on f.subscription = s.id and f.version = s.filter_version
  join {schema}.lanes began on began.subscription = s.id and began.generation = 1 and began.lane = 0
  join {schema}.marks start on start.id = began.start_mark;

-- The events of batches that are not settled yet. `held`: the head of a batch in `strict` order, tried before.
create view {schema}.open_events as
  select s.id as subscription_id, s.name, e.*, b.locked_by, b.locked_until, b.last_error, b.retry_count, b.retry_after,
    head.held
  from {schema}.batches b
  join {schema}.subscriptions s on s.id = b.subscription
  join {schema}.filters f on f.subscription = s.id and f.version = b.filter_version
  join {schema}.lanes l on l.subscription = b.subscription and l.generation = b.generation and l.lane = b.lane
  join {schema}.marks lo on lo.id = b.lo
  join {schema}.marks hi on hi.id = b.hi
  join {schema}.events e on e.seq between b.seq_from and b.seq_to and e.seq > b.done_to
    and (b.done is null or e.seq <> all (b.done))
    and {schema}.lane_of(e.key, e.seq, l.lanes) = b.lane
    and pg_visible_in_snapshot(e.xid, hi.snapshot) and not {schema}.behind(e.xid, e.seq, lo.snapshot, lo.replay_from)
    and (f.namespaces is null or e.namespace = any (f.namespaces))
    and (f.topics is null or e.topic = any (f.topics))
    and (f.event_types is null or e.event_type = any (f.event_types))
    and (f.tenants is null or e.tenant_id = any (f.tenants))
  cross join lateral (
    select b.retry_count > 0 and not exists (
      select 1 from {schema}.events w
      where w.seq between b.seq_from and e.seq - 1 and w.seq > b.done_to
        and {schema}.lane_of(w.key, w.seq, l.lanes) = b.lane
        and pg_visible_in_snapshot(w.xid, hi.snapshot) and not {schema}.behind(w.xid, w.seq, lo.snapshot, lo.replay_from)
        and (f.namespaces is null or w.namespace = any (f.namespaces))
        and (f.topics is null or w.topic = any (f.topics))
        and (f.event_types is null or w.event_type = any (f.event_types))
        and (f.tenants is null or w.tenant_id = any (f.tenants))
    ) as held
    offset 0
  ) head
  where b.finished_at is null;

-- The body for people: text where it is text, else base64. Never fails.
create function {schema}.readable(payload bytea, content_type text) returns text language plpgsql immutable as $$
begin
  if content_type ~ 'json|text|xml' then
    return convert_from(payload, 'UTF8');
  end if;
  return encode(payload, 'base64');
exception when others then
  return encode(payload, 'base64');
end $$;

-- For people and for plain SQL: every event with its state in every subscription that wants it. Four branches, each
-- with a constant status or a short list behind it, so that a question about pending or dead events never walks over
-- what was delivered; conditions on the event itself reach into every branch. The events come last in each join: with
-- this many tables the planner keeps the order as written.
create view {schema}.event_status as
  select subscription, seq, id, namespace, topic, event_type, key, aggregate_type, aggregate_id, tenant_id, dedupe_key,
    content_type, headers, {schema}.readable(payload, content_type) as payload, status, attempts,
    coalesce(next_attempt_at, available_at, created_at) as next_attempt_at, parked, locked_by, locked_until, last_error,
    available_at, created_at
  from (
    select s.name as subscription,
      e.seq, e.id, e.namespace, e.topic, e.event_type, e.key, e.aggregate_type, e.aggregate_id, e.tenant_id,
      e.dedupe_key, e.content_type, e.headers, e.payload, e.available_at, e.created_at,
      d.status, d.attempts, d.next_attempt_at, d.parked, d.locked_by, d.locked_until, d.last_error
    from {schema}.deliveries d
    join {schema}.subscriptions s on s.id = d.subscription
    join {schema}.events e on e.seq = d.seq
    union all
    select o.name,
      o.seq, o.id, o.namespace, o.topic, o.event_type, o.key, o.aggregate_type, o.aggregate_id, o.tenant_id,
      o.dedupe_key, o.content_type, o.headers, o.payload, o.available_at, o.created_at,
      case when o.held and o.retry_after > now() then 'pending' else 'processing' end,
      case when o.held then o.retry_count else 0 end, case when o.held then o.retry_after end, false, o.locked_by,
      o.locked_until, case when o.held then o.last_error end
    from {schema}.open_events o
    where not exists (select 1 from {schema}.deliveries d where d.subscription = o.subscription_id and d.seq = o.seq)
    union all
    select r.name,
      e.seq, e.id, e.namespace, e.topic, e.event_type, e.key, e.aggregate_type, e.aggregate_id, e.tenant_id,
      e.dedupe_key, e.content_type, e.headers, e.payload, e.available_at, e.created_at,
      'pending', 0, null, false, null, null, null
    from {schema}.readers r
    join {schema}.events e on e.seq > r.unseen_after and {schema}.lane_of(e.key, e.seq, r.lanes) = r.lane
      and (r.namespaces is null or e.namespace = any (r.namespaces))
      and (r.topics is null or e.topic = any (r.topics))
      and (r.event_types is null or e.event_type = any (r.event_types))
      and (r.tenants is null or e.tenant_id = any (r.tenants))
    where not {schema}.behind(e.xid, e.seq, r.start_snapshot, r.start_replay_from)
      and not {schema}.behind(e.xid, e.seq, r.lo_snapshot, r.lo_replay_from)
      and (r.hi_id is null or e.seq > r.pos or not pg_visible_in_snapshot(e.xid, r.hi_snapshot))
      and not exists (select 1 from {schema}.deliveries d where d.subscription = r.subscription and d.seq = e.seq)
    union all
    select r.name,
      e.seq, e.id, e.namespace, e.topic, e.event_type, e.key, e.aggregate_type, e.aggregate_id, e.tenant_id,
      e.dedupe_key, e.content_type, e.headers, e.payload, e.available_at, e.created_at,
      'delivered', 0, null, false, null, null, null
    from {schema}.readers r
    join {schema}.events e on {schema}.lane_of(e.key, e.seq, r.lanes) = r.lane
      and (r.namespaces is null or e.namespace = any (r.namespaces))
      and (r.topics is null or e.topic = any (r.topics))
      and (r.event_types is null or e.event_type = any (r.event_types))
      and (r.tenants is null or e.tenant_id = any (r.tenants))
    where not {schema}.behind(e.xid, e.seq, r.start_snapshot, r.start_replay_from)
      and ({schema}.behind(e.xid, e.seq, r.lo_snapshot, r.lo_replay_from)
        or (r.hi_id is not null and e.seq <= r.pos and pg_visible_in_snapshot(e.xid, r.hi_snapshot)))
      and not exists (select 1 from {schema}.deliveries d where d.subscription = r.subscription and d.seq = e.seq)
      and not exists (select 1 from {schema}.open_events o where o.subscription_id = r.subscription and o.seq = e.seq)
  ) state;

-- Rights. Nothing is open to everybody; a producer gets the one function, or what the Rust library writes itself.
revoke all on function {schema}.enqueue from public;
revoke all on function {schema}.take_mark from public;
revoke all on function {schema}.ring from public;

create function {schema}.grant_producer(role name) returns void language plpgsql as $$
begin
  execute format('grant usage on schema {schema} to %I', role);
  execute format('grant execute on function {schema}.enqueue to %I', role);
end $$;
create function {schema}.grant_library_producer(role name) returns void language plpgsql as $$
begin
  execute format('grant usage on schema {schema} to %I', role);
  execute format('grant insert (available_at, id, tenant_id, namespace, topic, event_type, key, aggregate_type, '
    'aggregate_id, dedupe_key, content_type, headers, payload) on {schema}.events to %I', role);
  execute format('grant select, insert, update on {schema}.dedupe_keys to %I', role);
  execute format('grant select on {schema}.next_ring to %I', role);
  execute format('grant execute on function {schema}.ring to %I', role);
end $$;
revoke all on function {schema}.grant_producer from public;
revoke all on function {schema}.grant_library_producer from public;
