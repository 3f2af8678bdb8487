-- An event by its public id. BRIN index events_places: a UUID of version 7 grows with time.
select {columns}, e.xid::text as xid from {schema}.events e where e.id = $1
