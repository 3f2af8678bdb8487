-- Ends every unfinished batch of a subscription, whoever holds it: without the token, the holder's settle changes
-- nothing. Index: batches_unfinished.
update {schema}.batches
set finished_at = clock_timestamp(), token = null
where subscription = $1 and finished_at is null
