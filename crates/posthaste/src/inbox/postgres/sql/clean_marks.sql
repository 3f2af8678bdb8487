-- Removes marks whose time is over, a chunk at a time; those that somebody else is removing are skipped. A mark stays as long
-- as the letter that it belongs to. Index: handled_expiry, unique (consumer, event_id).
with expired as (
  select m.consumer, m.event_id from {schema}.handled m
  where m.expires_at <= clock_timestamp()
    and not exists (
      select 1 from {schema}.dead_letters l
      where l.consumer = m.consumer and l.event_id = m.event_id and l.status <> 'resent'
      offset 0 -- one look into the index for each mark, instead of a join with all letters
    )
  order by m.expires_at limit $1
  for update of m skip locked
)
delete from {schema}.handled m using expired x
where m.consumer = x.consumer and m.event_id = x.event_id
