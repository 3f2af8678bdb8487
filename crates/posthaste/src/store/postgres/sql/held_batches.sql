-- The unfinished batches an owner of a lane holds. Reads only. Index: batches_unfinished.
select b.number, b.inserted_at, b.lo, b.hi, b.seq_from, b.seq_to, b.count, b.filter_version, b.claims, b.done_to, b.done, b.records, b.retry_count,
  b.steps, (greatest(extract(epoch from b.retry_after - clock_timestamp()), 0) * 1000000)::bigint as wait
from {schema}.batches b
where b.subscription = $1 and b.generation = $2 and b.lane = $3 and b.finished_at is null and b.token = $4
order by b.number
