-- Does the lane still stand where a claimer remembers it, with the same filter and end, and does the token still own it?
-- An idle claimer would notice neither a replay nor a changed filter otherwise. Primary keys; reads only.
select l.token is not distinct from coalesce($4, l.token) as owned,
  p.number = $5 and p.inserted_at is not distinct from $6 and l.stop_mark is not distinct from $7
    and s.filter_version = $8 as same
from {schema}.lanes l
join {schema}.progress p on p.subscription = l.subscription and p.generation = l.generation and p.lane = l.lane
join {schema}.subscriptions s on s.id = l.subscription
where l.subscription = $1 and l.generation = $2 and l.lane = $3
