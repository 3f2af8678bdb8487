-- Is there an event of a transaction that was open for long? By the BRIN index on xids; the seq is only a filter.
select exists (
  select 1 from {schema}.events e
  where xid8send(e.xid) = any ((select array_agg(int8send(x)) from unnest($10::bigint[]) x)::bytea[]) and e.seq + 0 > $8 and e.seq + 0 <= $9 and {wanted}
) as found, $1::bigint as subscription
