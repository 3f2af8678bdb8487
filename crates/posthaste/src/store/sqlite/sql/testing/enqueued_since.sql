-- The events that this connection sees above a seq. Reads only; primary key.
select {columns}
from posthaste_events e
where e.seq > ?1
order by e.seq
