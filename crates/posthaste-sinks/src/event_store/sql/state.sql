-- What decides whether we can append, and whether what we appended survives a crash. Locks: none.
select
  current_setting('transaction_read_only') = 'on' as read_only,
  to_regclass($1) is not null as exists,
  case when $2::text is null then coalesce(has_schema_privilege(current_schema(), 'create'), false)
       else coalesce(has_schema_privilege(to_regnamespace($2)::oid, 'create'), false) end as may_create,
  coalesce(has_table_privilege(to_regclass($1)::oid, 'insert'), true) as may_insert,
  coalesce((select a.attidentity <> '' or has_sequence_privilege(pg_get_serial_sequence($1, 'position'), 'usage, update')
            from pg_attribute a
            where a.attrelid = to_regclass($1) and a.attname = 'position' and not a.attisdropped), true) as may_number,
  coalesce((select relpersistence = 'u' from pg_class where oid = to_regclass($1)), false) as unlogged,
  current_setting('fsync') as fsync,
  current_setting('full_page_writes') as full_page_writes,
  current_setting('synchronous_commit') as synchronous_commit
