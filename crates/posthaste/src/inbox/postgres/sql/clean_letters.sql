-- Removes letters that were decided longer ago than that, a chunk at a time; open ones stay. Index: dead_letters_decided.
with decided as (
  select number from {schema}.dead_letters
  where status <> 'open' and decided_at <= clock_timestamp() - $2 * interval '1 microsecond'
  order by decided_at limit $1
  for update skip locked
)
delete from {schema}.dead_letters l using decided d where l.number = d.number
