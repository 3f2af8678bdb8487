-- Claims a page in a lane that has one owner: locks the lane's row, checks the token, and inserts `number + 1`, all in
-- one transaction; not with a filter that is no longer in force, and not after a batch that a fail-over has undone ($22).
-- With $23 it waits for the disk, which also flushes the producers' commits it read: see PgCursor::must_flush.
with sync as (
  select set_config('synchronous_commit', case when $23 then 'on' else 'off' end, true)
), owned as (
  select 1 from {schema}.lanes l, sync
  where l.subscription = $1 and l.generation = $2 and l.lane = $3 and l.token = $4
    and l.stop_mark is not distinct from $21
    and exists (select 1 from {schema}.subscriptions s where s.id = $1 and s.filter_version = $12)
    and $22::timestamptz is not distinct from (
      select b.inserted_at from {schema}.batches b
      where b.subscription = $1 and b.generation = $2 and b.lane = $3 and b.number = $5::bigint - 1
    )
  for update of l
), mark as (
  insert into {schema}.marks (snapshot, floor_seq, floor_xid, ceil_seq, steps)
  select $14::text::pg_snapshot, $15::bigint, $16::text::xid8, $17::bigint, $18::bigint[] from owned where $7::bigint is null
  returning id
)
insert into {schema}.batches (subscription, generation, lane, number, lo, hi, seq_from, seq_to, count, closes_window,
  filter_version, token, locked_by, locked_until, finished_at)
select $1, $2, $3, $5, $6, coalesce($7, (select id from mark)), $8, $9, $10, $11, $12,
  case when $13 then null else $4::uuid end, $19, clock_timestamp() + $20 * interval '1 microsecond',
  case when $13 then clock_timestamp() end
from owned
on conflict do nothing
returning hi, inserted_at
