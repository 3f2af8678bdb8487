-- Says that this worker is alive. Primary key; takes the write lock.
insert into posthaste_workers (subscription, name, seen_until)
values (?1, ?2, {now} + ?3)
on conflict (subscription, name) do update set seen_until = excluded.seen_until
