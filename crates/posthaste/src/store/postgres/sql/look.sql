-- Is there anything to claim? If so, or if the log has grown up to $13, a mark is taken at once; else nothing is written and
-- no xid burned. What has not committed hides itself. Primary key, from the end of what was seen. Parameters in subqueries:
-- see page_plain.sql.
--
-- Of the transactions that were running in `lo` ($12) only those are looked for that have ended, from where each can have begun
-- ($10) and $14 events far: one that stays open for hours would have every look read all that has come since.
with late as materialized (
  select array_agg(l.xid) as xids, min(l.after) as after, least(min(l.after) + $14::bigint, $11::bigint) as upto
  from unnest($12::text[]::xid8[], $10::bigint[]) l (xid, after)
  where l.after < $11::bigint and pg_visible_in_snapshot(l.xid, pg_current_snapshot())
), look as materialized (
  select (
    select e.seq from {schema}.events e
    where e.seq > (select $8::bigint) and e.xid >= (select $9::text::xid8) and {wanted}
    order by e.seq limit 1
  ) is not null or (
    select e.seq from {schema}.events e
    where e.seq > (select after from late) and e.seq <= (select upto from late)
      and e.xid = any ((select xids from late)::xid8[]) and {wanted}
    order by e.seq limit 1
  ) is not null as found,
    (select last_value from {schema}.event_seq) as last_seq
), marked as materialized (
  -- CASE alone keeps the function from being called: a join or a WHERE would call it first and look at the result.
  select last_seq, case when found or last_seq >= (select $13::bigint) then to_jsonb({schema}.take_mark()) end as mark
  from look
)
select last_seq, (mark->>'floor_seq')::bigint as floor_seq, mark->>'floor_xid' as floor_xid, mark->>'snapshot' as snapshot,
  (mark->>'ceil_seq')::bigint as ceil_seq, (mark->>'durable')::boolean as durable, $1::bigint as subscription,
  late.upto as late_upto, late.xids::text[]::bigint[] as late
from marked, late
