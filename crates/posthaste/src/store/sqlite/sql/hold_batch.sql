-- Order `strict`: remembers how far the batch was handled and what holds it. Fenced by the token, and by how far the batch is;
-- primary key; takes the write lock.
update posthaste_batches
set done_to = ?6, retry_count = ?7, retry_after = {now} + ?8, last_error = ?9,
  steps = ?10
where subscription = ?1 and generation = ?2 and lane = ?3 and number = ?4 and token = ?5 and finished_at is null
  and done_to <= ?6
