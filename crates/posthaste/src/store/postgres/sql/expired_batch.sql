-- Order `none`: is there a batch whose lease ran out? Reads only. Index: batches_unfinished.
select exists (
  select 1 from {schema}.batches b
  where b.subscription = $1 and b.finished_at is null and (b.token is null or b.locked_until < clock_timestamp())
) as expired
