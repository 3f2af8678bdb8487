-- A replay: what waits or is dead from its place on begins with its first step again. Not what a worker holds, and not a
-- row that somebody changes at this moment. Locks those rows in seq order. Primary key.
with chosen as (
  select d.seq from {schema}.deliveries d
  where d.subscription = $1 and d.seq >= $2 and d.steps > 0 and d.status <> 'processing'
  order by d.seq
  for update skip locked
)
update {schema}.deliveries d set steps = 0, updated_at = clock_timestamp()
where d.subscription = $1 and d.seq = any (array (select seq from chosen))
