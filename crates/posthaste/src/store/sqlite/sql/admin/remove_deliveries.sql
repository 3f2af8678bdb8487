-- A person takes deliveries away. Primary key; takes the write lock.
delete from posthaste_deliveries where subscription = ?1 and seq in (select value from json_each(?2))
