-- Removes marks whose time is over, a chunk at a time. Index: posthaste_inbox_handled_expiry; takes the write lock.
delete from posthaste_inbox_handled
where (consumer, event_id) in (
  select consumer, event_id from posthaste_inbox_handled
  where expires_at <= {now}
  order by expires_at limit ?1
)
