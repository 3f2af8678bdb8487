-- Order `strict`: moves back until when a batch is held: of one subscription, or of all; those further away than $3, or
-- all. Locks those rows; index batches_unfinished.
update {schema}.batches
set retry_after = retry_after - $1 * interval '1 microsecond'
where finished_at is null and ($2::bigint is null or subscription = $2)
  and ($3::bigint is null or retry_after > clock_timestamp() + $3 * interval '1 microsecond')
