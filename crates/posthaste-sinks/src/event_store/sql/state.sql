-- What decides whether we can append, and whether what we appended survives a crash. Locks: none.
select
  current_setting('transaction_read_only') = 'on' as read_only,
  to_regclass($1) is not null as exists,
  coalesce(has_table_privilege(to_regclass($1)::oid, 'insert'), true) as may_insert,
  coalesce((select relpersistence = 'u' from pg_class where oid = to_regclass($1)), false) as unlogged,
  current_setting('fsync') as fsync,
  current_setting('full_page_writes') as full_page_writes,
  current_setting('synchronous_commit') as synchronous_commit
