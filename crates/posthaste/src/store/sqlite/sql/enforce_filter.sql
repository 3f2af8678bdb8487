-- Puts a version of a filter in force. Primary key; takes the write lock.
update posthaste_subscriptions set filter_version = ?2 where id = ?1
