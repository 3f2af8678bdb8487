-- Moves the times of delayed events back: the one place besides rebase where a row of the log is changed. Locks those
-- rows; walks over the whole log of a test.
update {schema}.events
set available_at = available_at - $1 * interval '1 microsecond'
where available_at is not null
