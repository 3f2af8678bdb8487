-- Removes the mark of an event. Index: primary key; locks that row.
delete from {schema}.handled where consumer = $1 and event_id = $2
