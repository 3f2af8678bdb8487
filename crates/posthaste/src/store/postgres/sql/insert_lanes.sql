-- Opens a generation of lanes at a mark.
insert into {schema}.lanes (subscription, generation, lane, lanes, start_mark)
select $1, $2, lane, $3, $4 from generate_series(0, $3 - 1) lane
