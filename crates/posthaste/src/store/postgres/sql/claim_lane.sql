-- Takes a lane that is free or whose lease ran out, oldest generation first: a new generation starts only when every
-- lane of the old one has finished. Locks one lane's row, skips locked ones; primary key.
with free as (
  select l.subscription, l.generation, l.lane
  from {schema}.lanes l
  where l.subscription = $1 and l.finished_at is null
    and (l.token is null or l.locked_until < clock_timestamp())
    and l.generation = (
      select min(o.generation) from {schema}.lanes o where o.subscription = $1 and o.finished_at is null
    )
  order by l.lane
  limit 1
  for update of l skip locked
)
update {schema}.lanes l
set token = $2, locked_by = $3, locked_until = clock_timestamp() + $4 * interval '1 microsecond'
from free
where l.subscription = free.subscription and l.generation = free.generation and l.lane = free.lane
returning l.generation, l.lane, l.lanes
