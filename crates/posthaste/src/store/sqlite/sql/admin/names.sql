-- All subscriptions, by name. Reads only.
select name from posthaste_subscriptions order by name
