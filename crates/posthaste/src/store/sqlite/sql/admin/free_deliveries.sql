-- Dead letters leave the order of their key, so that they hold it no longer. Primary key; takes the write lock.
update posthaste_deliveries set key = null, updated_at = {now}
where subscription = ?1 and seq in (select value from json_each(?2))
