-- Takes the lanes of a generation away from their owners; one that had finished has work again. Primary key.
update {schema}.lanes
set token = null, locked_by = null, locked_until = null, finished_at = null
where subscription = $1 and generation = $2
