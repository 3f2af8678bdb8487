-- Order `strict`: moves back until when a batch is held: of one subscription, or of all; those further away than ?3, or
-- all. Takes the write lock; walks over all batches of a test.
update posthaste_batches
set retry_after = retry_after - ?1
where finished_at is null and (?2 is null or subscription = ?2) and (?3 is null or retry_after > {now} + ?3)
