-- The late branch of a page when it spans much of the log: by the BRIN index on xids. Locks nothing.
select {columns}, blocker.seq is not null as blocked, own.seq is not null as elsewhere,
  case when e.available_at > clock_timestamp()
    then (extract(epoch from e.available_at - clock_timestamp()) * 1000000)::bigint end as wait
from {schema}.events e
left join lateral (
  select d.seq from {schema}.deliveries d
  where d.subscription = $1 and d.key = e.key and d.seq < e.seq and (d.status <> 'dead' or $11)
  limit 1
) blocker on true
left join lateral (
  select d.seq from {schema}.deliveries d where d.subscription = $1 and d.seq = e.seq limit 1
) own on true
where xid8send(e.xid) = any ((select array_agg(int8send(x)) from unnest($10::bigint[]) x)::bytea[]) and e.seq + 0 > $8 and e.seq + 0 <= $9 and {wanted}
order by e.seq + 0
limit $12
