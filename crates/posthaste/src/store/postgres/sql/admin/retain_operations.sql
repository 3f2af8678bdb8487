-- Removes old lines about what people did. Primary key, from the oldest.
with old as (
  select id from {schema}.operations where at < clock_timestamp() - $1 * interval '1 microsecond' order by id limit $2
)
delete from {schema}.operations p using old o where p.id = o.id
