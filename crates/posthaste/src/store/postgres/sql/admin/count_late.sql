-- Counts the wanted events of transactions that were open when a mark was taken, up to $11. BRIN index events_places.
select count(*) as found, false as cut, min(created_at) as oldest_at
from (
  select e.created_at from {schema}.events e
  where xid8send(e.xid) = any ((select array_agg(int8send(x)) from unnest($10::bigint[]) x)::bytea[]) and e.seq + 0 > $8 and e.seq + 0 <= $9 and {wanted}
    and not exists (select 1 from {schema}.deliveries d where d.subscription = $1 and d.seq = e.seq)
  limit $11
) late
