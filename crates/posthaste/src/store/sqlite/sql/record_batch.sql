-- Claimed by event: remembers which events of a batch were handled. Fenced by the token; primary key; takes the write lock.
update posthaste_batches
set done_to = max(done_to, ?6), done = ?7
where subscription = ?1 and generation = ?2 and lane = ?3 and number = ?4 and token = ?5 and finished_at is null
