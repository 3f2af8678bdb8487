-- The state of one event in every subscription that wants it. Primary keys; reads only.
select {state}
from posthaste_states v
join posthaste_events e on e.seq = v.seq
where v.seq = ?1
order by v.subscription
