-- A line about what a person did to one event. Takes the write lock.
insert into posthaste_operations (who, verb, subscription, seq, event_id) values (?1, ?2, ?3, ?4, ?5)
