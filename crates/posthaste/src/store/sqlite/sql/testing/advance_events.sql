-- Moves the times of delayed events back: the one place where a row of the log is changed. Takes the write lock; walks
-- over the whole log of a test.
update posthaste_events
set available_at = available_at - ?1
where available_at is not null
