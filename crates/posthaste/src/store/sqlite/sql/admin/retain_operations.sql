-- Removes lines about what people did, older than ?2 microseconds. Primary key, from the oldest; takes the write lock.
delete from posthaste_operations
where id in (select id from posthaste_operations where at < {now} - ?2 order by id limit ?1)
