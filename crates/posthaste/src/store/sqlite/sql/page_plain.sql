-- A page for a subscription that has no deliveries, so that nothing can be blocked or elsewhere; all of it in one row, because
-- each row that travels wakes a thread, which costs more than the row. A large payload (null) is fetched by payload.sql. Along
-- the primary key; reads only. A claim checks under the write lock that there are no deliveries.
select json_group_array(json_array(seq, id, namespace, topic, event_type, key, aggregate_type, aggregate_id, tenant_id,
  dedupe_key, case when length(payload) <= ?11 then hex(payload) end, content_type, headers, available_at, created_at,
  case when available_at > {now} then available_at - {now} end))
from (
  select {columns} from posthaste_events e
  where e.seq > ?8 and e.seq <= ?9 and {wanted} and ?1 is not null
  order by e.seq
  limit ?10
)
