-- Forgets the mark that giving up left; one that was set later means that the event was done since, and stays. Index: both
-- primary keys; locks the mark's row.
delete from {schema}.handled m using {schema}.dead_letters l
where l.number = $1 and m.consumer = l.consumer and m.event_id = l.event_id and m.marked_at <= l.given_up_at
