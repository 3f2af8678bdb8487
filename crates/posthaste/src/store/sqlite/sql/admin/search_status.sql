-- The same for what a subscription wants, with its state there. Primary key within the span; reads only.
select {columns}, {state}
from posthaste_states v
join posthaste_events e on e.seq = v.seq
where v.seq >= ?1 and v.seq <= ?2 and {matching}
  and v.subscription = ?15 and (?16 is null or v.status = ?16)
order by e.seq * ?13
limit ?14
