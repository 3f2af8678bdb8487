-- Takes over a dedupe key whose lifetime has passed. Locks that one row; primary key.
update {schema}.dedupe_keys
set event_id = $4, expires_at = clock_timestamp() + $5 * interval '1 microsecond'
where namespace = $1 and topic = $2 and dedupe_key = $3 and expires_at <= clock_timestamp()
