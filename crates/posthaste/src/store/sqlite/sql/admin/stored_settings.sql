-- The declared settings and what lies over them. Unique index on the name; reads only, under the write lock.
select id, declared, overrides from posthaste_subscriptions where name = ?1
