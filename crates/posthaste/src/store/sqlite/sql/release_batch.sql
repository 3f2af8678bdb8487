-- Gives a batch back unfinished; this claim is not held against it. Fenced by the token; takes the write lock.
update posthaste_batches set token = null, locked_until = null, claims = max(claims - 1, 0)
where subscription = ?1 and generation = ?2 and lane = ?3 and number = ?4 and token = ?5 and finished_at is null
