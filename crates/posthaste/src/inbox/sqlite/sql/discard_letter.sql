-- Decides that an open letter is not needed; its mark stays. Index: primary key; takes the write lock.
update posthaste_inbox_dead_letters set status = 'discarded', decided_at = {now}
where number = ?1 and status = 'open'
