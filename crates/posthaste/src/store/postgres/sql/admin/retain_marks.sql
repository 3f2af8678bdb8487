-- Removes marks that nobody refers to. Young ones stay: their batch may not have committed yet.
with unused as (
  select m.id from {schema}.marks m
  where m.taken_at < clock_timestamp() - interval '1 hour'
    and not exists (select 1 from {schema}.lanes l where l.start_mark = m.id)
    and not exists (select 1 from {schema}.lanes l where l.stop_mark = m.id)
    and not exists (select 1 from {schema}.batches b where b.lo = m.id)
    and not exists (select 1 from {schema}.batches b where b.hi = m.id)
  limit $1
)
delete from {schema}.marks m using unused u where m.id = u.id
