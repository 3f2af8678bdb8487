-- The first event at or above a seq, and when it was enqueued. Primary key; reads only.
select e.seq, e.created_at from posthaste_events e where e.seq >= ?1 order by e.seq limit 1
