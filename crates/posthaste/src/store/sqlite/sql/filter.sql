-- One version of a subscription's filter. Primary key; reads only.
select version, namespaces, topics, event_types, tenants
from posthaste_filters
where subscription = ?1 and version = ?2
