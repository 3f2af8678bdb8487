-- A replay from before the start of a subscription: from now on it begins there. Primary key; takes the write lock.
update posthaste_lanes set start_mark = ?2 where subscription = ?1 and generation = 1 and start_mark > ?2
