-- What retain_events would remove of the next $4 events after $1, up to $2. Locks nothing. Primary key; deliveries_event.
with needs as materialized (
  select n.snapshot, n.replay_from from {schema}.needs n
), looked as materialized (
  select e.seq, e.xid, e.created_at < clock_timestamp() - $3 * interval '1 microsecond' as old from {schema}.events e
  where e.seq > $1 and ($2::bigint is null or e.seq <= $2)
  order by e.seq limit $4
)
select count(*) filter (
    where l.old
      and not exists (select 1 from needs n where not {schema}.behind(l.xid, l.seq, n.snapshot, n.replay_from))
      and not exists (select 1 from {schema}.deliveries d where d.seq = l.seq)
  ) as removed, count(*) as looked_at, max(l.seq) as last_seq, coalesce(bool_and(l.old), false) as all_old
from looked l
