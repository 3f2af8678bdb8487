-- The dead letters of a key leave its order, so that they hold it no longer. Index: deliveries_key.
with freed as (
  update {schema}.deliveries d set key = null, updated_at = clock_timestamp()
  where d.subscription = $1 and d.key = $2 and d.status = 'dead'
  returning d.subscription, d.seq, d.event_id, d.last_error
)
insert into {schema}.operations (who, verb, subscription, seq, event_id, detail)
select $3, 'release key', s.name, f.seq, f.event_id, jsonb_build_object('key', $2::text, 'last_error', f.last_error)
from freed f join {schema}.subscriptions s on s.id = f.subscription
