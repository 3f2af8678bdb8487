-- What an operator puts over the declared settings. Primary key; takes the write lock.
update posthaste_subscriptions set overrides = ?2, updated_at = {now} where id = ?1
