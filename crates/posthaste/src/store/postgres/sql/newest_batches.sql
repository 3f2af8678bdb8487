-- The newest batch of every lane that still runs. Primary keys.
select generation, lane, number from {schema}.progress
where subscription = $1 and not finished
order by generation, lane
