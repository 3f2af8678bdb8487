-- One payload. Primary key; reads only.
select payload from posthaste_events where seq = ?1
