-- The events of a span that match, in seq order or (?13 = -1) against it. Primary key within the span; reads only.
select {columns} from posthaste_events e
where e.seq >= ?1 and e.seq <= ?2 and {matching}
order by e.seq * ?13
limit ?14
