-- Appends a page in its order; what is there already stays as it is. Locks: the new rows. Index: the primary key.
insert into {table} (id, namespace, topic, event_type, key, aggregate_type, aggregate_id, tenant_id, content_type,
                     payload, headers, created_at)
select e.id, e.namespace, e.topic, e.event_type, e.key, e.aggregate_type, e.aggregate_id, e.tenant_id, e.content_type,
       e.payload, e.headers::jsonb, e.created_at
from unnest($1::uuid[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::uuid[], $9::text[],
            $10::bytea[], $11::text[], $12::timestamptz[])
  with ordinality as e (id, namespace, topic, event_type, key, aggregate_type, aggregate_id, tenant_id, content_type,
                        payload, headers, created_at, place)
order by e.place
on conflict (id) do nothing
