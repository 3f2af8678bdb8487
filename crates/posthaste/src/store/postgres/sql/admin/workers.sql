-- Who holds something of a subscription under a live lease, and (`holds` false) who only said that it is alive.
-- Primary keys; batches_unfinished; deliveries_leased.
select name, bool_or(holds) as holds from (
  select l.locked_by as name, true as holds from {schema}.lanes l
  where l.subscription = $1 and l.finished_at is null and l.token is not null and l.locked_until > clock_timestamp()
  union all
  select b.locked_by, true from {schema}.batches b
  where b.subscription = $1 and b.finished_at is null and b.token is not null and b.locked_until > clock_timestamp()
  union all
  select d.locked_by, true from {schema}.deliveries d
  where d.subscription = $1 and d.status = 'processing' and d.locked_until > clock_timestamp()
  union all
  select w.name, false from {schema}.workers w where w.subscription = $1 and w.seen_until > clock_timestamp()
) w
where name is not null
group by name
order by name
