-- Lets the event of a letter in again: removes its mark and notes that. Index: both primary keys; locks both rows.
with letter as (
  update {schema}.dead_letters set status = 'resent', decided_at = clock_timestamp()
  where number = $1
  returning consumer, event_id
), forgotten as (
  delete from {schema}.handled m using letter l where m.consumer = l.consumer and m.event_id = l.event_id
)
select count(*) from letter
