-- Settles a batch, if the token is still the holder's and the batch is the one that was claimed: a crash or a fail-over may
-- have undone it, and another one has its number, or what was recorded of it. $7 says whether it waits for the disk; null: as the
-- connection does. What a crash undoes of deliveries until the next wait is delivered again. Primary key.
update {schema}.batches b
set finished_at = clock_timestamp(), token = null, done = null
from (
  select set_config('synchronous_commit', coalesce($7, current_setting('synchronous_commit')), true)
) as waits
where b.subscription = $1 and b.generation = $2 and b.lane = $3 and b.number = $4 and b.token = $5 and b.inserted_at = $6
  and b.records = $8 and b.finished_at is null
