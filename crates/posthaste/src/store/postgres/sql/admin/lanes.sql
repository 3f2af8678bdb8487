-- The lanes of a subscription that have not finished, who holds them and when they last moved. Primary keys; that of
-- the batches backwards, past the few that are not settled.
select p.generation, p.lane, p.number,
  (select j.finished_at from {schema}.batches j
   where j.subscription = p.subscription and j.generation = p.generation and j.lane = p.lane
     and j.finished_at is not null
   order by j.number desc limit 1) as moved_at,
  case when l.token is not null and l.locked_until > clock_timestamp() then l.locked_by end as held_by,
  case when l.token is not null and l.locked_until > clock_timestamp() then l.locked_until end as held_until
from {schema}.progress p
join {schema}.lanes l on l.subscription = p.subscription and l.generation = p.generation and l.lane = p.lane
where p.subscription = $1 and not p.finished
order by p.generation, p.lane
