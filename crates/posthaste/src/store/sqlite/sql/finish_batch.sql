-- Settles a batch, if the token is still the holder's. Primary key; takes the write lock.
update posthaste_batches
set finished_at = {now}, token = null, done = null
where subscription = ?1 and generation = ?2 and lane = ?3 and number = ?4 and token = ?5 and finished_at is null
