-- Forgets the mark that giving up left; one that was set later means that the event was done since, and stays. Index: both
-- primary keys; takes the write lock.
delete from posthaste_inbox_handled
where (consumer, event_id) = (select consumer, event_id from posthaste_inbox_dead_letters where number = ?1)
  and marked_at <= (select given_up_at from posthaste_inbox_dead_letters where number = ?1)
