-- A lane's new owner takes all its unfinished batches: giving them the new token fences the former owner out of each.
-- Index: batches_unfinished.
update {schema}.batches b
set token = $4, locked_by = $5, claims = claims + 1, claimed_at = clock_timestamp()
where b.subscription = $1 and b.generation = $2 and b.lane = $3 and b.finished_at is null
returning b.number, b.inserted_at, b.lo, b.hi, b.seq_from, b.seq_to, b.count, b.filter_version, b.claims, b.done_to, b.done, b.records, b.retry_count,
  b.steps, (greatest(extract(epoch from b.retry_after - clock_timestamp()), 0) * 1000000)::bigint as wait
