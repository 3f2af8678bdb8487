-- Is there anything to claim? Reads only, along the primary key from the end of what was seen.
select exists (
  select 1 from posthaste_events e where e.seq > ?8 and e.seq <= ?9 and {wanted}
) as found, ?1 as subscription
