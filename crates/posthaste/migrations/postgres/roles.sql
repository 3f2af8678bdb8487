-- Who may do what. Not a version: `migrate` runs it after all of them, every time. It creates the roles that are missing, where
-- the user may, and grants what is missing to those that are there. So rights follow when a later version brings a table, and
-- when an administrator has created the roles meanwhile. Where nothing is missing it only reads. `{schema}` is replaced by the
-- schema's name.
--
-- The roles are groups without a login: `grant {schema}_relay to somebody`. They belong to the whole cluster and are shared by its
-- databases; their rights are given in each database.
do $roles$
declare
  role_name text;
  statement text;
  problem text;
begin
  foreach role_name in array array['{schema}_producer', '{schema}_relay', '{schema}_viewer'] loop
    if to_regrole(role_name) is null then
      begin
        execute format('create role %I nologin', role_name);
      exception
        when duplicate_object or unique_violation then
          null; -- Somebody was faster, who migrates another database of this cluster.
        when others then
          problem := sqlerrm;
      end;
    end if;
  end loop;

  for statement in
    select case wanted.kind
        when 'column' then format('grant %s (%I) on {schema}.%I to %I', privilege, split_part(object, '.', 2),
          split_part(object, '.', 1), role.rolname)
        when 'schema' then format('grant %s on schema %I to %I', privilege, object, role.rolname)
        else format('grant %s on %s {schema}.%I to %I', privilege, wanted.kind, object, role.rolname)
      end
    from (values
      ('producer relay viewer', 'usage', 'schema', '{schema}'),

      -- A producer adds to the log and sees nothing of it: by the function, or as the library does. It gives neither xid nor
      -- seq nor created_at, and has no right on the sequence. Of dedupe keys it must know which are taken.
      ('producer', 'execute', 'function', 'enqueue new_event_id ring_needed ring'),
      ('producer', 'insert', 'column', 'events.available_at events.id events.tenant_id events.namespace events.topic '
        'events.event_type events.key events.aggregate_type events.aggregate_id events.dedupe_key events.content_type '
        'events.headers events.payload'),
      ('producer', 'select insert', 'table', 'dedupe_keys'),
      ('producer', 'update', 'column', 'dedupe_keys.event_id dedupe_keys.expires_at'),
      ('producer', 'select', 'sequence', 'next_ring'),

      -- A relay delivers, and does what people tell it to: it adds no event and changes none, removes old ones, and rewrites
      -- neither the audit log nor what the database is.
      ('relay', 'delete', 'table', 'events dedupe_keys subscriptions marks batches deliveries workers operations'),
      ('relay', 'insert', 'table', 'subscriptions filters marks lanes batches deliveries workers operations'),
      ('relay', 'update', 'table', 'dedupe_keys subscriptions lanes batches deliveries workers'),
      ('relay', 'update', 'column', 'meta.retained_to'),
      ('relay', 'update', 'sequence', 'doorbell next_ring'),
      ('relay', 'execute', 'function', 'take_mark ring ring_needed'),

      -- Both read everything; a viewer does nothing else.
      ('relay viewer', 'select', 'table', 'meta events dedupe_keys subscriptions filters marks lanes batches deliveries workers '
        'operations progress positions needs readers open_events event_status'),
      ('relay viewer', 'select', 'sequence', 'event_seq doorbell next_ring'),
      ('relay viewer', 'execute', 'function', 'lane_of unseen_after behind readable')
    ) as wanted (roles, privileges, kind, objects),
      unnest(string_to_array(wanted.roles, ' ')) as short,
      unnest(string_to_array(wanted.privileges, ' ')) as privilege,
      unnest(string_to_array(wanted.objects, ' ')) as object,
      pg_roles as role
    where role.rolname = '{schema}_' || short and not case wanted.kind
      when 'schema' then has_schema_privilege(role.oid, object, privilege)
      when 'table' then has_table_privilege(role.oid, '{schema}.' || object, privilege)
      when 'sequence' then has_sequence_privilege(role.oid, '{schema}.' || object, privilege)
      when 'function' then has_function_privilege(role.oid, to_regproc('{schema}.' || object), privilege)
      when 'column' then
        has_column_privilege(role.oid, '{schema}.' || split_part(object, '.', 1), split_part(object, '.', 2), privilege)
    end
  loop
    begin
      execute statement;
    exception when insufficient_privilege then
      problem := sqlerrm;
    end;
  end loop;

  if problem is not null then
    raise notice '%', 'posthaste: the roles {schema}_producer, {schema}_relay and {schema}_viewer are not complete (' || problem
      || '). Nothing needs them but whoever wants to be one of them. An administrator can run "create role {schema}_producer '
      'nologin; create role {schema}_relay nologin; create role {schema}_viewer nologin"; the next migrate by the owner of the '
      'schema gives them their rights.';
  end if;
end $roles$;
