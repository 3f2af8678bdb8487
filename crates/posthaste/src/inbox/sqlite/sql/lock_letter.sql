-- A letter and its status, in a transaction that holds the write lock. Index: primary key; reads only.
select consumer, event_id, status from posthaste_inbox_dead_letters where number = ?1
