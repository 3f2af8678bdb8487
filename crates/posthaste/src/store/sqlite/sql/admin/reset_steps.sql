-- A replay: what waits or is dead from its place on begins with its first step again. Not what a worker holds. Primary
-- key; takes the write lock.
update posthaste_deliveries set steps = 0, updated_at = {now}
where subscription = ?1 and seq >= ?2 and steps > 0 and status <> 'processing'
