-- Claimed by event: remembers which events of a batch were handled. Fenced by the token, as finish_batch.sql, and by the number of
-- records: one that a crash or a fail-over has undone took the deliveries of failed events with it, and nothing may go on from
-- there. Primary key; no index has these columns.
update {schema}.batches b
set done_to = greatest(done_to, $7), done = $8, records = records + 1
from (
  select set_config('synchronous_commit', case when $9 then current_setting('synchronous_commit') else 'off' end, true)
) as waits
where b.subscription = $1 and b.generation = $2 and b.lane = $3 and b.number = $4 and b.token = $5 and b.inserted_at = $6
  and b.records = $10 and b.finished_at is null
