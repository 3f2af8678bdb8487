-- Forgets workers that were not seen for a minute. Primary key; takes the write lock.
delete from posthaste_workers where subscription = ?1 and seen_until < {now} - 60000000
