-- The newest events below a place, as many as a search may look at: where that span begins. Primary key, backwards.
select count(*) as looked_at, min(seq) as far_end from (
  select seq from {schema}.events where seq < $1 and seq > $2 order by seq desc limit $3
) span
