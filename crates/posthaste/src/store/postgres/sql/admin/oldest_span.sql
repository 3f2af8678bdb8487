-- The oldest events above a place, as many as a search may look at: where that span ends. Primary key.
select count(*) as looked_at, max(seq) as far_end from (
  select seq from {schema}.events where seq > $1 and seq < $2 order by seq limit $3
) span
