-- Trims the journal: finished batches older than $1 microseconds, except the newest of each lane, which is its progress.
with old as (
  select b.subscription, b.generation, b.lane, b.number from {schema}.batches b
  where b.finished_at < clock_timestamp() - $1 * interval '1 microsecond'
    and exists (
      select 1 from {schema}.batches n
      where n.subscription = b.subscription and n.generation = b.generation and n.lane = b.lane and n.number > b.number
    )
  limit $2
)
delete from {schema}.batches b using old o
where b.subscription = o.subscription and b.generation = o.generation and b.lane = o.lane and b.number = o.number
