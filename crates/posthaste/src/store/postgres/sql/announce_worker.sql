-- Says that this worker is alive and counts who is: the fair share of lanes follows from it. Primary key.
with mine as (
  insert into {schema}.workers (subscription, name, seen_until)
  values ($1, $2, clock_timestamp() + $3 * interval '1 microsecond')
  on conflict (subscription, name) do update set seen_until = excluded.seen_until
), gone as (
  delete from {schema}.workers where subscription = $1 and seen_until < clock_timestamp() - interval '1 minute'
)
select 1 + count(*) as alive from {schema}.workers
where subscription = $1 and seen_until >= clock_timestamp() and name <> $2
