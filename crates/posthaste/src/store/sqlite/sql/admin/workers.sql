-- Who holds something of a subscription under a live lease, and (`holds` 0) who only said that it is alive. Primary
-- keys; batches_unfinished; deliveries_leased; reads only.
select name, max(holds) as holds from (
  select l.locked_by as name, 1 as holds from posthaste_lanes l
  where l.subscription = ?1 and l.finished_at is null and l.token is not null and l.locked_until > {now}
  union all
  select b.locked_by, 1 from posthaste_batches b indexed by posthaste_batches_unfinished
  where b.subscription = ?1 and b.finished_at is null and b.token is not null and b.locked_until > {now}
  union all
  select d.locked_by, 1 from posthaste_deliveries d
  where d.subscription = ?1 and d.status = 'processing' and d.locked_until > {now}
  union all
  select w.name, 0 from posthaste_workers w where w.subscription = ?1 and w.seen_until > {now}
) w
where name is not null
group by name
order by name
