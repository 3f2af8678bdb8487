-- Takes a lane that is free or whose lease ran out, oldest generation first: a new generation starts only when every
-- lane of the old one has finished. Primary key; takes the write lock.
update posthaste_lanes
set token = ?2, locked_by = ?3, locked_until = {now} + ?4
where subscription = ?1 and (generation, lane) = (
  select l.generation, l.lane from posthaste_lanes l
  where {free}
  order by l.lane
  limit 1
)
returning generation, lane, lanes
