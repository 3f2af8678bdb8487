-- Order `none`: the oldest unfinished batch, and whether some lease ran out. Reads only. Index: batches_unfinished, from
-- the oldest that was unfinished last time ($2, $3): a snapshot held open keeps the dead entries before it alive.
select min(b.generation) as generation,
  (array_agg(b.number order by b.generation, b.number))[1] as number,
  coalesce(bool_or(b.token is null or b.locked_until < clock_timestamp()), false) as expired
from {schema}.batches b
where b.subscription = $1 and b.finished_at is null and (b.generation, b.lane, b.number) >= ($2, 0, $3)
