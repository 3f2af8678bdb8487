-- The unfinished batches of a subscription, in order. `beyond`: how many events beyond `done_to` were handled and have no
-- delivery. Index: batches_unfinished; primary key of deliveries.
select b.generation, b.lane, l.lanes, b.number, b.inserted_at, b.lo, b.hi, b.seq_from, b.seq_to, b.count,
  b.filter_version, b.claims, b.done_to, b.done, b.records, b.retry_count, b.steps, 0::bigint as wait,
  (select count(*) from unnest(b.done) handled (seq)
   where not exists (select 1 from {schema}.deliveries d where d.subscription = b.subscription and d.seq = handled.seq)) as beyond
from {schema}.batches b
join {schema}.lanes l on l.subscription = b.subscription and l.generation = b.generation and l.lane = b.lane
where b.subscription = $1 and b.finished_at is null
order by b.generation, b.lane, b.number
