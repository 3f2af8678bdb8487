-- Marks an event for a consumer; no row if it is marked. Waits for a transaction that marks the same one, and sees what
-- became of it. Index: primary key.
insert into {schema}.handled (consumer, event_id, expires_at)
values ($1, $2, clock_timestamp() + $3 * interval '1 microsecond')
on conflict do nothing
