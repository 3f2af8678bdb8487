-- Stores the next version of a filter and puts it in force.
with next as (
  insert into {schema}.filters (subscription, version, namespaces, topics, event_types, tenants)
  values ($1, $2, $3, $4, $5, $6)
  returning version
)
update {schema}.subscriptions set filter_version = next.version from next where id = $1
