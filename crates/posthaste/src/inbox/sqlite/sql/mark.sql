-- Marks an event for a consumer; no row if it is marked. Index: primary key; takes the write lock.
insert into posthaste_inbox_handled (consumer, event_id, marked_at, expires_at)
values (?1, ?2, {now}, {now} + ?3)
on conflict do nothing
