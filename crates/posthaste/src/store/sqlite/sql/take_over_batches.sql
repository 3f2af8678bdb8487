-- A lane's new owner takes all its unfinished batches: giving them the new token fences the former owner out of each.
-- Index: batches_unfinished; takes the write lock.
update posthaste_batches indexed by posthaste_batches_unfinished
set token = ?4, locked_by = ?5, claims = claims + 1, claimed_at = {now}
where subscription = ?1 and generation = ?2 and lane = ?3 and finished_at is null
returning number, seq_from, seq_to, filter_version, claims, done_to, done, retry_count, steps,
  max(coalesce(retry_after, 0) - {now}, 0) as wait
