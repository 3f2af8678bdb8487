-- One version of a subscription's filter. Primary key.
select version, namespaces, topics, event_types, tenants from {schema}.filters where subscription = $1 and version = $2
