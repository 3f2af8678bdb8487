-- Looks at the next $4 events after $1, up to $2, and removes those that are old enough, behind the oldest unfinished
-- window of every lane, and without a delivery. Locks the rows it removes. Primary key; deliveries_event.
with needs as materialized (
  select n.snapshot, n.replay_from from {schema}.needs n
), looked as materialized (
  select e.seq, e.xid, e.created_at < clock_timestamp() - $3 * interval '1 microsecond' as old from {schema}.events e
  where e.seq > $1 and ($2::bigint is null or e.seq <= $2)
  order by e.seq limit $4
), free as (
  select l.seq from looked l
  where l.old
    and not exists (select 1 from needs n where not {schema}.behind(l.xid, l.seq, n.snapshot, n.replay_from))
    and not exists (select 1 from {schema}.deliveries d where d.seq = l.seq)
), gone as (
  delete from {schema}.events e using free f where e.seq = f.seq returning e.seq
)
select (select count(*) from gone) as removed, (select count(*) from looked) as looked_at,
  (select max(seq) from looked) as last_seq,
  (select min(l.seq) from looked l where not exists (select 1 from gone g where g.seq = l.seq)) as first_kept,
  coalesce((select bool_and(old) from looked), false) as all_old
