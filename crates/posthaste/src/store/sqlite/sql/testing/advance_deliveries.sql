-- Moves the due times of pending deliveries back: of one subscription, or of all; those further away than ?3, or all.
-- Takes the write lock; walks over all deliveries of a test.
update posthaste_deliveries
set next_attempt_at = next_attempt_at - ?1
where status = 'pending' and (?2 is null or subscription = ?2) and (?3 is null or next_attempt_at > {now} + ?3)
