-- All subscriptions, by name.
select name from {schema}.subscriptions order by name
