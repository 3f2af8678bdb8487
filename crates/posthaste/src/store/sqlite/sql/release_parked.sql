-- The subscription has no order of keys any more: what waited behind an earlier event of its key is due. Index:
-- deliveries_parked; takes the write lock.
update posthaste_deliveries set parked = false, next_attempt_at = {now}
where subscription = ?1 and status = 'pending' and parked
