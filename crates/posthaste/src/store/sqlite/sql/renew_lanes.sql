-- Renews the leases on lanes that these tokens hold, and says which do.
-- By the primary key; takes the write lock.
update posthaste_lanes set locked_until = {now} + ?3
where subscription = ?1 and finished_at is null and token in (select value from json_each(?2))
returning token
