-- The unfinished batches of a subscription, in order. `beyond`: how many events beyond `done_to` were handled and have no
-- delivery. Index: batches_unfinished; primary key of deliveries; reads only.
select b.generation, b.lane, l.lanes, b.number, b.seq_from, b.seq_to, b.count, b.filter_version, b.claims, b.done_to, b.done,
  b.retry_count, b.steps, 0 as wait,
  (select count(*) from json_each(b.done) handled where not exists (
    select 1 from posthaste_deliveries d where d.subscription = b.subscription and d.seq = handled.value)) as beyond
from posthaste_batches b indexed by posthaste_batches_unfinished
join posthaste_lanes l on l.subscription = b.subscription and l.generation = b.generation and l.lane = b.lane
where b.subscription = ?1 and b.finished_at is null
order by b.generation, b.lane, b.number
