-- Creates a subscription. Unique index on the name; takes the write lock.
insert into posthaste_subscriptions (name, ordering, claim_by, after_dead, lanes, declared)
values (?1, ?2, ?3, ?4, ?5, ?6)
returning id
