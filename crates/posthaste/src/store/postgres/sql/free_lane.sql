-- Is there a lane to take? Reads only, so that an idle worker burns no xid. Primary key.
select exists (
  select 1 from {schema}.lanes l
  where l.subscription = $1 and l.finished_at is null
    and (l.token is null or l.locked_until < clock_timestamp())
    and l.generation = (
      select min(o.generation) from {schema}.lanes o where o.subscription = $1 and o.finished_at is null
    )
) as free
