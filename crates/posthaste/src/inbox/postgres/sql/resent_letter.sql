-- Notes that the event of a letter is let in again. Index: primary key; locks that row.
update {schema}.dead_letters set status = 'resent', decided_at = clock_timestamp() where number = $1
