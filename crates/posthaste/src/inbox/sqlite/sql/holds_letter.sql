-- Whether the mark of an event, if there is one, is that of a letter. Index: unique (consumer, event_id); reads only.
select exists (
  select 1 from posthaste_inbox_dead_letters where consumer = ?1 and event_id = ?2 and status <> 'resent'
)
