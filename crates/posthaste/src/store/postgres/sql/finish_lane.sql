-- A lane that was told to stop has come to its stop mark: nothing unfinished is left. Fenced by the owner's token; with
-- competing claimers (order `none`) nobody may own it.
update {schema}.lanes l
set finished_at = clock_timestamp(), token = null, locked_until = null
where l.subscription = $1 and l.generation = $2 and l.lane = $3
  and (l.token = $4 or ($4 is null and (l.token is null or l.locked_until < clock_timestamp())))
  and not exists (
    select 1 from {schema}.batches b
    where b.subscription = $1 and b.generation = $2 and b.lane = $3 and b.finished_at is null
  )
