-- What people did, newest first. Primary key, backwards.
select at, who, verb, subscription, event_id, detail from {schema}.operations order by id desc limit $1
