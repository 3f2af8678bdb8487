-- Stores the next version of a filter. Primary key; takes the write lock.
insert into posthaste_filters (subscription, version, namespaces, topics, event_types, tenants)
values (?1, ?2, ?3, ?4, ?5, ?6)
