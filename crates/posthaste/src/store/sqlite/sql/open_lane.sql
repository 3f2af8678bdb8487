-- The lane in which claimers compete (order `none` has exactly one). Primary key; reads only.
select generation, lane, lanes from posthaste_lanes
where subscription = ?1 and finished_at is null
order by generation, lane
limit 1
