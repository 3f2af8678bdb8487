-- Claims a page where any number of workers claim side by side (order `none`): inserting `number + 1` is the
-- compare-and-set. Not with a filter that is no longer in force, and not after a batch that a fail-over has undone ($22).
-- With $23 it waits for the disk, as every claim.
with sync as (
  select set_config('synchronous_commit', case when $23 then 'on' else 'off' end, true) from {schema}.lanes l
  where l.subscription = $1 and l.generation = $2 and l.lane = $3 and l.stop_mark is not distinct from $21
), mark as (
  insert into {schema}.marks (snapshot, floor_seq, floor_xid, ceil_seq, steps)
  select $14::text::pg_snapshot, $15::bigint, $16::text::xid8, $17::bigint, $18::bigint[] from sync where $7::bigint is null
  returning id
)
insert into {schema}.batches (subscription, generation, lane, number, lo, hi, seq_from, seq_to, count, closes_window,
  filter_version, token, locked_by, locked_until, finished_at)
select $1, $2, $3, $5, $6, coalesce($7, (select id from mark)), $8, $9, $10, $11, $12,
  case when $13 then null else $4::uuid end, $19, clock_timestamp() + $20 * interval '1 microsecond',
  case when $13 then clock_timestamp() end
from sync
where exists (select 1 from {schema}.subscriptions s where s.id = $1 and s.filter_version = $12)
  and $22::timestamptz is not distinct from (
    select b.inserted_at from {schema}.batches b
    where b.subscription = $1 and b.generation = $2 and b.lane = $3 and b.number = $5::bigint - 1
  )
on conflict do nothing
returning hi, inserted_at
