-- Whether an event is marked for a consumer. Index: primary key; reads only.
select exists (select 1 from {schema}.handled where consumer = $1 and event_id = $2)
