-- Renews the leases on batches that these tokens hold, and says which do.
-- By the index batches_unfinished; takes the write lock.
update posthaste_batches indexed by posthaste_batches_unfinished set locked_until = {now} + ?3
where subscription = ?1 and finished_at is null and token in (select value from json_each(?2))
returning token
