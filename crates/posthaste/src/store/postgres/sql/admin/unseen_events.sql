-- The wanted events up to $8 that a snapshot does not see and that have no delivery: after a restore, those that had
-- committed late and were not read yet. Walks the log up to there, once in its life.
select {columns}, case when e.available_at > clock_timestamp()
    then (extract(epoch from e.available_at - clock_timestamp()) * 1000000)::bigint end as wait
from {schema}.events e
where e.seq <= $8 and not pg_visible_in_snapshot(e.xid, $9::text::pg_snapshot) and {wanted}
  and not exists (select 1 from {schema}.deliveries d where d.subscription = $1 and d.seq = e.seq)
order by e.seq
