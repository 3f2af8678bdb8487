-- What people did to one event, oldest first. Reads the whole table: it holds what people did, which is little.
select at, who, verb, subscription, event_id, detail from {schema}.operations where event_id = $1 order by id
