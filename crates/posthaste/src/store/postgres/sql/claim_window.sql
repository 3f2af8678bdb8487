-- Opens a window and claims its first page in a lane that has one owner, all in one statement: what is found is seen by the
-- statement's own snapshot, and that becomes the mark that ends the window. If nothing is found, and the log has not grown up
-- to $11, nothing is written and no xid burned. See page_plain.sql and insert_batch_owned.sql for the parts.
--
-- The order of a mark is kept (see take_mark()): the floor is read, with the flushed position, before the lane's row is locked,
-- which is what draws the xid. That the snapshot is older than both makes only those late that began in between.
--
-- Late are, of the transactions that were running in `lo` ($10), those that have ended; none of their events lies before what $25 has
-- for each. Nothing is claimed if that takes more (`longer`): their events may lie more than $12 events before the end of what was
-- seen or of the log; the subscription has deliveries, so that events may be blocked or elsewhere; this is not a transaction of its own
-- in READ COMMITTED, which take_mark() refuses; or the page is so large that a worker that has stopped reading would keep the
-- lane locked. If they may lie far before the end of what was seen, no page is read at all: nothing would end the search for it.
with late as materialized (
  select array_agg(l.xid) as xids, min(l.after) as after, coalesce(min(l.after) + $12::bigint < $8::bigint, false) as far
  from unnest($10::text[]::xid8[], $25::bigint[]) l (xid, after)
  where pg_visible_in_snapshot(l.xid, pg_current_snapshot())
), page as materialized (
  select e.*, coalesce(sum(octet_length(e.payload)) over (order by e.seq rows between unbounded preceding and 1 preceding), 0)
    <= (select $14::bigint) as fits
  from (
    select * from (
      select * from {schema}.events e
      where e.seq > (select least($8::bigint, after) from late where not far)
        and (e.xid >= (select $9::text::xid8) or e.xid = any ((select xids from late)::xid8[])) and {wanted}
      order by e.seq limit {most}
    ) e
    order by e.seq limit (select $13::bigint)
  ) e
), place as materialized (
  select f.*, s.seq as floor_seq, s.seq as ceil_seq, f.count > 0 or s.seq >= (select $11::bigint) as claims,
    (select far or coalesce(s.seq > after + $12::bigint, false) from late) or f.bytes > 65536
      or current_setting('transaction_isolation') <> 'read committed' or pg_current_xact_id_if_assigned() is not null
      or (
        select d.seq from {schema}.deliveries d where d.subscription = $1 order by d.subscription, d.seq limit 1
      ) is not null as longer,
    f.count > 0 and (f.count > (select $22::bigint) or not s.durable) as flush, s.durable
  from (
    select count(*) filter (where fits)::integer as count, min(seq) as seq_from, max(seq) filter (where fits) as seq_to,
      count(*) < (select $13::bigint) and coalesce(bool_and(fits), true) as closes_window,
      coalesce(sum(octet_length(payload) + coalesce(pg_column_size(headers), 0) + 200), 0) as bytes
    from page
  ) f, (
    select coalesce(pg_sequence_last_value('{schema}.event_seq'), 0) as seq,
      pg_current_wal_flush_lsn() >= pg_current_wal_insert_lsn() and current_setting('synchronous_standby_names') = '' as durable
    -- No part of the page's plan, and asked once.
    offset 0
  ) s
), owned as materialized (
  select p.*, pg_current_snapshot() as snapshot,
    set_config('synchronous_commit', case when p.flush then 'on' else 'off' end, true)
  from place p, {schema}.lanes l
  where p.claims and not p.longer and l.subscription = $1 and l.generation = $15 and l.lane = $6 and l.token = $16
    and l.stop_mark is null
    and exists (select 1 from {schema}.subscriptions s where s.id = $1 and s.filter_version = $19)
    and $20::timestamptz is not distinct from (
      select b.inserted_at from {schema}.batches b
      where b.subscription = $1 and b.generation = $15 and b.lane = $6 and b.number = $17::bigint - 1
    )
  for update of l
), mark as (
  insert into {schema}.marks (snapshot, floor_seq, floor_xid, ceil_seq, steps)
  select o.snapshot, o.floor_seq, pg_current_xact_id(), o.ceil_seq, $24::bigint[] from owned o
  returning id, floor_xid
), batch as (
  insert into {schema}.batches (subscription, generation, lane, number, lo, hi, seq_from, seq_to, count, closes_window,
    filter_version, token, locked_by, locked_until, finished_at)
  select $1, $15, $6, $17, $18, m.id, coalesce(o.seq_from, 0), coalesce(o.seq_to, 0), o.count, o.closes_window, $19,
    case when o.count > 0 then $16 end, $21, clock_timestamp() + $23 * interval '1 microsecond',
    case when o.count = 0 then clock_timestamp() end
  from owned o, mark m
  on conflict do nothing
  returning hi, inserted_at
)
select {columns},
  case when e.available_at is not null and e.available_at > clock_timestamp()
    then (extract(epoch from e.available_at - clock_timestamp()) * 1000000)::bigint end as wait,
  p.longer, p.claims, head.*
from place p
left join page e on e.fits and not p.longer
left join (
  select b.hi, b.inserted_at, o.snapshot::text as snapshot, o.floor_seq, m.floor_xid::text as floor_xid, o.ceil_seq,
    o.durable, o.flush, o.closes_window, o.seq_from
  from owned o, mark m, batch b
) head on e.seq is null or e.seq = head.seq_from
order by e.seq
