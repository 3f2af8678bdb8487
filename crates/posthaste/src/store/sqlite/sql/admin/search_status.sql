-- The same for what a subscription wants, with its state there. Primary key within the span; reads only.
select {columns}, {state}
from posthaste_states v
join posthaste_events e on e.seq = v.seq
where v.seq >= ?1 and v.seq <= ?2 and {matching}
  and v.subscription = ?16 and (?17 is null or instr(v.last_error, ?17) > 0)
  and (?18 is null or v.status = ?18)
order by e.seq * ?13
limit ?14
