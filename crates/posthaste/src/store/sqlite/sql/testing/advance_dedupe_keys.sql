-- Moves the ends of dedupe keys back. Takes the write lock; walks over all keys of a test.
update posthaste_dedupe_keys
set expires_at = expires_at - ?1
