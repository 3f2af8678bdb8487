-- What people did, newest first. Primary key, backwards; reads only.
select at, who, verb, subscription, event_id, detail from posthaste_operations order by id desc limit ?1
