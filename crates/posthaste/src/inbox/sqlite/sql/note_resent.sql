-- Notes that a letter was sent again, unless its consumer has given up once more since. Index: primary key; takes the
-- write lock.
update posthaste_inbox_dead_letters set status = 'resent', decided_at = {now}
where number = ?1 and times = ?2
