-- Decides that an open letter is not needed; its mark stays. Index: primary key; locks that row.
update {schema}.dead_letters set status = 'discarded', decided_at = clock_timestamp()
where number = $1 and status = 'open'
