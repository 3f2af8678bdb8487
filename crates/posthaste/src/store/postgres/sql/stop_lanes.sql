-- Ends the running generation of lanes at a mark and records the new split. Primary keys.
with stopped as (
  update {schema}.lanes set stop_mark = $2
  where subscription = $1 and finished_at is null and stop_mark is null
)
update {schema}.subscriptions set lanes = $3, updated_at = clock_timestamp() where id = $1
