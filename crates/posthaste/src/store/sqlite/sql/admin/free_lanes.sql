-- Takes the lanes of a generation away from their owners; one that had finished has work again. Primary key; takes the
-- write lock.
update posthaste_lanes
set token = null, locked_by = null, locked_until = null, finished_at = null
where subscription = ?1 and generation = ?2
