-- What people did to one event, oldest first. Reads the whole table: it holds what people did; reads only.
select at, who, verb, subscription, event_id, detail from posthaste_operations where event_id = ?1 order by id
