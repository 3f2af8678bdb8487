-- Settles a batch, if the token is still the holder's. Primary key.
update {schema}.batches
set finished_at = clock_timestamp(), token = null
where subscription = $1 and generation = $2 and lane = $3 and number = $4 and token = $5 and finished_at is null
