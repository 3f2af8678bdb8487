-- Where the lanes at work stand. Primary keys; the newest batch from the right end of the index; reads only.
select p.generation, p.lane, p.lanes, p.number, p.pos
from posthaste_positions p
where p.subscription = ?1
order by p.lane
