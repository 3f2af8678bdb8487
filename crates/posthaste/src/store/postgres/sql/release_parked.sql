-- The subscription has no order of keys any more: what waited behind an earlier event of its key is due. Index:
-- deliveries_parked.
update {schema}.deliveries set parked = false, next_attempt_at = clock_timestamp()
where subscription = $1 and status = 'pending' and parked
