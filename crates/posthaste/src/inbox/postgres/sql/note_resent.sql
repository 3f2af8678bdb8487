-- Notes that a letter was sent again, unless its consumer has given up once more since. Index: primary key; locks that row.
update {schema}.dead_letters set status = 'resent', decided_at = clock_timestamp()
where number = $1 and times = $2
