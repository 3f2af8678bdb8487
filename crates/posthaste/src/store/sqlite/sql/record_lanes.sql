-- Records the new split. Primary key; takes the write lock.
update posthaste_subscriptions set lanes = ?2, updated_at = {now} where id = ?1
