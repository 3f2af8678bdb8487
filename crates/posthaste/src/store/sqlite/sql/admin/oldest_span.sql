-- The oldest events above a place, as many as a search may look at: where that span ends. Primary key; reads only.
select count(*) as looked_at, max(seq) as far_end from (
  select e.seq from posthaste_events e where e.seq > ?1 and e.seq < ?2 order by e.seq limit ?3
) span
