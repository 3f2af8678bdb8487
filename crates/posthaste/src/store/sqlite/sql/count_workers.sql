-- How many workers are alive: the fair share of lanes follows from it. Primary key; reads only.
select count(*) as alive from posthaste_workers where subscription = ?1 and (seen_until >= {now} or name = ?2)
