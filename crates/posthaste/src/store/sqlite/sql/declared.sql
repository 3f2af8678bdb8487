-- What is known of a subscription that is being declared. Unique index on the name; runs under the write lock.
select id, lanes, filter_version from posthaste_subscriptions where name = ?1
