-- The unfinished batches of a subscription, in order. Index: batches_unfinished; reads only.
select b.generation, b.lane, l.lanes, b.number, b.seq_from, b.seq_to, b.count, b.filter_version, b.claims, b.done_to,
  b.retry_count, b.steps, 0 as wait
from posthaste_batches b indexed by posthaste_batches_unfinished
join posthaste_lanes l on l.subscription = b.subscription and l.generation = b.generation and l.lane = b.lane
where b.subscription = ?1 and b.finished_at is null
order by b.generation, b.lane, b.number
