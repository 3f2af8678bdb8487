-- The unfinished batches of a subscription, in order. Index: batches_unfinished.
select b.generation, b.lane, l.lanes, b.number, b.inserted_at, b.lo, b.hi, b.seq_from, b.seq_to, b.count,
  b.filter_version, b.claims, b.done_to, b.retry_count, b.steps, 0::bigint as wait
from {schema}.batches b
join {schema}.lanes l on l.subscription = b.subscription and l.generation = b.generation and l.lane = b.lane
where b.subscription = $1 and b.finished_at is null
order by b.generation, b.lane, b.number
