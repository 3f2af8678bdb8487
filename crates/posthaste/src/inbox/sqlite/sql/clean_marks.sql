-- Removes marks whose time is over, a chunk at a time. A mark stays as long as the letter that it belongs to.
-- Index: posthaste_inbox_handled_expiry, unique (consumer, event_id); takes the write lock.
delete from posthaste_inbox_handled
where (consumer, event_id) in (
  select m.consumer, m.event_id from posthaste_inbox_handled m
  where m.expires_at <= {now}
    and not exists (
      select 1 from posthaste_inbox_dead_letters l
      where l.consumer = m.consumer and l.event_id = m.event_id and l.status <> 'resent'
    )
  order by m.expires_at limit ?1
)
