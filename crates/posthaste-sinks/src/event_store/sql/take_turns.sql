-- Until the end of the transaction nobody else appends to this table through this sink. Locks: one advisory lock.
select pg_advisory_xact_lock(hashtextextended('posthaste event_store ' || $1, 0))
