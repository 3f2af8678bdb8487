-- Order `none`: takes one batch whose lease ran out. Locks one row, skips locked ones. Index: batches_unfinished.
with expired as (
  select b.subscription, b.generation, b.lane, b.number
  from {schema}.batches b
  where b.subscription = $1 and b.finished_at is null and (b.token is null or b.locked_until < clock_timestamp())
    and (b.generation, b.lane, b.number) >= ($5, 0, $6)
  order by b.generation, b.lane, b.number
  limit 1
  for update of b skip locked
)
update {schema}.batches b
set token = $2, locked_by = $3, locked_until = clock_timestamp() + $4 * interval '1 microsecond', claims = b.claims + 1,
  claimed_at = clock_timestamp()
from expired x
where b.subscription = x.subscription and b.generation = x.generation and b.lane = x.lane and b.number = x.number
returning b.generation, b.lane, b.number, b.inserted_at, b.lo, b.hi, b.seq_from, b.seq_to, b.count, b.filter_version, b.claims, b.done_to, b.done, b.records,
  b.retry_count, b.steps, 0::bigint as wait,
  (select l.lanes from {schema}.lanes l
   where l.subscription = b.subscription and l.generation = b.generation and l.lane = b.lane) as lanes
