-- A letter and its status, after whoever is at it. Index: primary key; locks that row.
select consumer, event_id, status from {schema}.dead_letters where number = $1 for update
