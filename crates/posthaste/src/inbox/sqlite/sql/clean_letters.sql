-- Removes letters that were decided longer ago than that, a chunk at a time; open ones stay.
-- Index: posthaste_inbox_dead_letters_decided; takes the write lock.
delete from posthaste_inbox_dead_letters
where number in (
  select number from posthaste_inbox_dead_letters
  where status <> 'open' and decided_at <= {now} - ?2
  order by decided_at limit ?1
)
