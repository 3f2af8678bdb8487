-- What a released lane left unfinished: the claim is not held against it. Index: batches_unfinished; takes the write
-- lock.
update posthaste_batches indexed by posthaste_batches_unfinished set token = null, claims = max(claims - 1, 0)
where subscription = ?1 and generation = ?2 and lane = ?3 and token = ?4 and finished_at is null
