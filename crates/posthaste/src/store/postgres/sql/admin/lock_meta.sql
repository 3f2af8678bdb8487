-- Keeps retention away while a subscription is moved back, and the other way round. The first lock of its transaction.
select retained_to from {schema}.meta for update
