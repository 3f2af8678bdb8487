-- Ends every unfinished batch of a subscription, whoever holds it: without the token, the holder's settle changes
-- nothing. Index: batches_unfinished; takes the write lock.
update posthaste_batches indexed by posthaste_batches_unfinished
set finished_at = {now}, token = null
where subscription = ?1 and finished_at is null
