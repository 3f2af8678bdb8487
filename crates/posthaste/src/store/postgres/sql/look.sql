-- Is there anything to claim? If so, or if the log has grown up to $13, a mark is taken at once; else nothing is written and
-- no xid burned. What has not committed hides itself. Primary key, from the end of what was seen. Parameters in subqueries:
-- see page_plain.sql.
with look as materialized (
  select (
    select e.seq from {schema}.events e
    where e.seq > (select $8::bigint) and e.xid >= (select $9::text::xid8) and {wanted}
    order by e.seq limit 1
  ) is not null or ((select $10::bigint) < (select $11::bigint) and (
    select e.seq from {schema}.events e
    where e.seq > (select $10::bigint) and e.seq <= (select $11::bigint)
      and e.xid = any ((select $12::text[]::xid8[])::xid8[]) and {wanted}
    order by e.seq limit 1
  ) is not null) as found,
    (select last_value from {schema}.event_seq) as last_seq
), marked as materialized (
  -- CASE alone keeps the function from being called: a join or a WHERE would call it first and look at the result.
  select last_seq, case when found or last_seq >= (select $13::bigint) then to_jsonb({schema}.take_mark()) end as mark
  from look
)
select last_seq, (mark->>'floor_seq')::bigint as floor_seq, mark->>'floor_xid' as floor_xid, mark->>'snapshot' as snapshot,
  (mark->>'ceil_seq')::bigint as ceil_seq, (mark->>'durable')::boolean as durable, $1::bigint as subscription
from marked
