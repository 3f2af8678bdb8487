-- The declared settings and what lies over them, locked until the change is written. Unique index on the name.
select id, declared, overrides from {schema}.subscriptions where name = $1 for update
