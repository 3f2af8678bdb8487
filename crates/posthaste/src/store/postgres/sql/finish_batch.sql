-- Settles a batch, if the token is still the holder's and the batch is the one that was claimed: a crash or a fail-over may
-- have undone it, and another one has its number. Unless $7 it does not wait for the disk: the next claim does, and what a
-- crash undoes until then is delivered again. Primary key.
update {schema}.batches b
set finished_at = clock_timestamp(), token = null
from (
  select set_config('synchronous_commit', case when $7 then current_setting('synchronous_commit') else 'off' end, true)
) as waits
where b.subscription = $1 and b.generation = $2 and b.lane = $3 and b.number = $4 and b.token = $5 and b.inserted_at = $6
  and b.finished_at is null
