-- An append of nothing: fails or waits where a real one would. Locks: the table, as any insert. Index: none.
insert into {table} (id, namespace, topic, event_type, key, aggregate_type, aggregate_id, tenant_id, content_type,
                     payload, headers, created_at)
select null::uuid, '', '', null, null, null, null, null::uuid, '', ''::bytea, '{}'::jsonb, now()
where false
on conflict (id) do nothing
