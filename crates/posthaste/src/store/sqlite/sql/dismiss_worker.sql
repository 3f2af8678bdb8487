-- A worker has stopped: the others share its lanes. Primary key; takes the write lock.
delete from posthaste_workers where subscription = ?1 and name = ?2
