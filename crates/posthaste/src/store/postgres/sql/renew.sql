-- Renews every lease this worker holds and says which tokens still hold something. In order `none` batches have leases
-- of their own: from the oldest unfinished one ($4, $5) on. Index: primary key of lanes, batches_unfinished,
-- deliveries_leased.
with lanes as (
  update {schema}.lanes set locked_until = clock_timestamp() + $3 * interval '1 microsecond'
  where subscription = $1 and finished_at is null and token = any ($2)
  returning token
), batches as (
  update {schema}.batches set locked_until = clock_timestamp() + $3 * interval '1 microsecond'
  where subscription = $1 and finished_at is null and token = any ($2) and (generation, lane, number) >= ($4, 0, $5)
  returning token
), deliveries as (
  update {schema}.deliveries set locked_until = clock_timestamp() + $3 * interval '1 microsecond'
  where subscription = $1 and status = 'processing' and token = any ($2)
  returning token
)
select token from lanes union select token from batches union select token from deliveries
