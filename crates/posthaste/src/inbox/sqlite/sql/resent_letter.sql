-- Notes that the event of a letter is let in again. Index: primary key; takes the write lock.
update posthaste_inbox_dead_letters set status = 'resent', decided_at = {now} where number = ?1
