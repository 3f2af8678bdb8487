-- Does the lane still stand where a claimer remembers it, and does the token still own it? An idle claimer would never
-- notice a replay otherwise. Primary keys; reads only.
select l.token is not distinct from coalesce($4, l.token) as owned, p.number = $5 as same
from {schema}.lanes l
join {schema}.progress p on p.subscription = l.subscription and p.generation = l.generation and p.lane = l.lane
where l.subscription = $1 and l.generation = $2 and l.lane = $3
