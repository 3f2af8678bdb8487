-- The lane in which claimers compete (order `none` has exactly one). Primary key.
select generation, lane, lanes from {schema}.lanes
where subscription = $1 and finished_at is null
order by generation, lane
limit 1
