-- A lane that was told to stop has come to its stop mark: nothing unfinished is left. Fenced by the token; where
-- claimers compete (no token is given), nobody may hold the lane. Primary key; takes the write lock.
update posthaste_lanes
set finished_at = {now}, token = null, locked_until = null
where subscription = ?1 and generation = ?2 and lane = ?3 and finished_at is null
  and (token = ?4 or (?4 is null and (token is null or locked_until < {now})))
  and not exists (
    select 1 from posthaste_batches b indexed by posthaste_batches_unfinished
    where b.subscription = ?1 and b.generation = ?2 and b.lane = ?3 and b.finished_at is null
  )
