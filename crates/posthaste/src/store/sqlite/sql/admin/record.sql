-- A line about what a person did. Takes the write lock.
insert into posthaste_operations (who, verb, subscription, detail) values (?1, ?2, ?3, ?4)
