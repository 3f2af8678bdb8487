-- Trims the journal: finished batches older than ?2 microseconds, except the newest of each lane, which is its
-- progress. Primary key, from the oldest of each lane; takes the write lock.
delete from posthaste_batches
where (subscription, generation, lane, number) in (
  select p.subscription, p.generation, p.lane, b.number
  from posthaste_progress p
  cross join posthaste_batches b on b.subscription = p.subscription and b.generation = p.generation and b.lane = p.lane
    and b.number < p.number
  where b.finished_at < {now} - ?2
  limit ?1
)
