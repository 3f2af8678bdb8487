-- Opens a generation of lanes at a mark. Primary key; takes the write lock.
with recursive numbers (lane) as (
  select 0 union all select lane + 1 from numbers where lane + 1 < ?3
)
insert into posthaste_lanes (subscription, generation, lane, lanes, start_mark)
select ?1, ?2, lane, ?3, ?4 from numbers
