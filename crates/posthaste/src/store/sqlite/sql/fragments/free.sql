l.subscription = ?1 and l.finished_at is null and (l.token is null or l.locked_until < {now})
    and l.generation = (
      select min(o.generation) from posthaste_lanes o where o.subscription = ?1 and o.finished_at is null
    )
