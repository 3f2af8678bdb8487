-- Is there a lane to take? Primary key; reads only, so that an idle worker writes nothing.
select exists (
  select 1 from posthaste_lanes l
  where {free}
) as free
