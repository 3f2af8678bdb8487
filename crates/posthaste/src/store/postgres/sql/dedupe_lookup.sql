-- Who enqueued this key first. A statement of its own: only a new snapshot sees the winner's commit. Primary key.
select event_id, expires_at <= clock_timestamp() as expired
from {schema}.dedupe_keys
where namespace = $1 and topic = $2 and dedupe_key = $3
