-- Order `none`: takes one batch whose lease ran out. Index: batches_unfinished; takes the write lock.
update posthaste_batches
set token = ?2, locked_by = ?3, locked_until = {now} + ?4, claims = claims + 1, claimed_at = {now}
where subscription = ?1 and (generation, lane, number) = (
  select b.generation, b.lane, b.number from posthaste_batches b indexed by posthaste_batches_unfinished
  where b.subscription = ?1 and b.finished_at is null and (b.token is null or b.locked_until < {now})
  order by b.generation, b.lane, b.number
  limit 1
)
returning generation, lane, number, seq_from, seq_to, filter_version, claims, done_to, done, retry_count, steps,
  0 as wait, (select l.lanes from posthaste_lanes l
   where l.subscription = posthaste_batches.subscription and l.generation = posthaste_batches.generation
     and l.lane = posthaste_batches.lane) as lanes
