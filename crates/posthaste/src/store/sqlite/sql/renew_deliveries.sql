-- Renews the leases on deliveries that these tokens hold, and says which do.
-- By the index deliveries_leased; takes the write lock.
update posthaste_deliveries set locked_until = {now} + ?3
where subscription = ?1 and status = 'processing' and token in (select value from json_each(?2))
returning token
