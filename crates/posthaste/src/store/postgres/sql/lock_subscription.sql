-- Serialises what parks and releases keys. Always the first lock of its transaction, so that nobody deadlocks; and no longer than
-- 15 s for a worker that falls silent, also in a handler's transaction, where nothing waits after it. No key update: who writes a
-- delivery without this lock (order `none`) has its reference to the subscription checked, and must not wait for that in the middle.
select set_config('idle_in_transaction_session_timeout', '15000', true) from {schema}.subscriptions where id = $1 for no key update
