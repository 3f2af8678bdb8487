-- Removes the mark of an event. Index: primary key; takes the write lock.
delete from posthaste_inbox_handled where consumer = ?1 and event_id = ?2
