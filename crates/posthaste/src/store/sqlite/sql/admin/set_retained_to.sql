-- Everything up to here was looked at and is gone. Takes the write lock.
update posthaste_meta set retained_to = max(retained_to, ?1)
