-- Ends the running generations of lanes at a mark. Primary key; takes the write lock.
update posthaste_lanes set stop_mark = ?2
where subscription = ?1 and finished_at is null and stop_mark is null
