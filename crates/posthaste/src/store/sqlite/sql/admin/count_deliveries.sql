-- How many deliveries a verb would be for, counted up to ?9. Primary key, from ?2 on; reads only.
select count(*) as found from (
  select d.seq from posthaste_deliveries d where {chosen} order by d.seq limit ?9
) chosen
