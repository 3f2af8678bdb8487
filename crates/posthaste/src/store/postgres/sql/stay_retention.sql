-- Keeps retention from running while a subscription is created. Shares the lock with others who create one.
select 1 from {schema}.meta for share
