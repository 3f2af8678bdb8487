-- An event by its public id. Unique index events_id; reads only.
select {columns} from posthaste_events e where e.id = ?1
