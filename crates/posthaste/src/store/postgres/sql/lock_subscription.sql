-- Serialises what parks and releases keys. Always the first lock of its transaction, so that nobody deadlocks.
select 1 from {schema}.subscriptions where id = $1 for update
