-- Have all transactions below this xid ended?
select pg_snapshot_xmin(pg_current_snapshot()) >= $1::text::xid8 as ended
