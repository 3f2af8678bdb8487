-- Order `none`: is there a batch whose lease ran out? Index: batches_unfinished; reads only.
select exists (
  select 1 from posthaste_batches b indexed by posthaste_batches_unfinished
  where b.subscription = ?1 and b.finished_at is null and (b.token is null or b.locked_until < {now})
) as expired
