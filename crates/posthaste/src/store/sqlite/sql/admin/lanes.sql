-- The lanes of a subscription that have not finished, and who holds them. Primary keys; reads only.
select p.generation, p.lane, p.number,
  case when l.token is not null and l.locked_until > {now} then l.locked_by end as held_by,
  case when l.token is not null and l.locked_until > {now} then l.locked_until end as held_until
from posthaste_progress p
join posthaste_lanes l on l.subscription = p.subscription and l.generation = p.generation and l.lane = p.lane
where p.subscription = ?1 and not p.finished
order by p.generation, p.lane
