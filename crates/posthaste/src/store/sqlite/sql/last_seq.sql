-- The last seq drawn; 0 before the first event. Reads only.
select coalesce((select seq from sqlite_sequence where name = 'posthaste_events'), 0) as seq
