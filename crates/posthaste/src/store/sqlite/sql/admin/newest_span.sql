-- The newest events below a place, as many as a search may look at: where that span begins. Primary key, backwards;
-- reads only.
select count(*) as looked_at, min(seq) as far_end from (
  select e.seq from posthaste_events e where e.seq < ?1 and e.seq > ?2 order by e.seq desc limit ?3
) span
