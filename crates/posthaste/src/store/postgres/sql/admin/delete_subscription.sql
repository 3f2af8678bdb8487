-- Removes a subscription and, by cascade, its lanes, filters, deliveries and workers. Batches refer to lanes by value
-- only (a foreign key would cost every claim), so they go here. Primary keys.
with gone as (
  delete from {schema}.batches where subscription = $1
)
delete from {schema}.subscriptions where id = $1
