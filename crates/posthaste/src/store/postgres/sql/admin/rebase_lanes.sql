-- Generations that wait for their turn begin, and those that end, end at the new mark. Primary key.
update {schema}.lanes
set start_mark = case when generation > $2 then $3 else start_mark end,
  stop_mark = case when stop_mark is not null then $3 end
where subscription = $1 and generation >= $2
