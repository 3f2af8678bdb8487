-- Is there anything to claim? Reads only, so an idle poll burns no xid and writes no WAL. What has not committed hides
-- itself. Primary key, from the end of what was seen.
select exists (
  select 1 from {schema}.events e
  where e.seq > $8 and e.xid >= $9::text::xid8 and {wanted}
) or ($10::bigint < $11::bigint and exists (
  select 1 from {schema}.events e
  where e.seq > $10 and e.seq <= $11 and e.xid = any ($12::text[]::xid8[]) and {wanted}
)) as found,
  (select last_value from {schema}.event_seq) as last_seq, $1::bigint as subscription
