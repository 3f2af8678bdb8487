-- Removes marks whose time is over, a chunk at a time; those that somebody else is removing are skipped.
-- Index: handled_expiry.
with expired as (
  select consumer, event_id from {schema}.handled
  where expires_at <= clock_timestamp()
  order by expires_at limit $1
  for update skip locked
)
delete from {schema}.handled m using expired x
where m.consumer = x.consumer and m.event_id = x.event_id
