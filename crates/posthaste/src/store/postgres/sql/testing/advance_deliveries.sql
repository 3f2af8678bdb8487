-- Moves the due times of pending deliveries back: of one subscription, or of all; those further away than $3, or all.
-- Locks those rows; walks over all deliveries of a test.
update {schema}.deliveries
set next_attempt_at = next_attempt_at - $1 * interval '1 microsecond'
where status = 'pending' and ($2::bigint is null or subscription = $2)
  and ($3::bigint is null or next_attempt_at > clock_timestamp() + $3 * interval '1 microsecond')
