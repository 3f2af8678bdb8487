-- Order `strict`: remembers how far the batch was handled and what holds it. Fenced by the token, and by how far the batch is:
-- what was given up as late may still come, and the attempts at one event must not count for the next. Primary key.
update {schema}.batches
set done_to = $6, retry_count = $7, retry_after = clock_timestamp() + $8 * interval '1 microsecond',
  last_error = $9, steps = $10
where subscription = $1 and generation = $2 and lane = $3 and number = $4 and token = $5 and inserted_at = $11
  and finished_at is null and done_to <= $6
