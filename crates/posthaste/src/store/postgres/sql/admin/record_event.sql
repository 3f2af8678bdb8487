-- A line about what a person did to one event. Locks nothing.
insert into {schema}.operations (who, verb, subscription, seq, event_id) values ($1, $2, $3, $4, $5)
