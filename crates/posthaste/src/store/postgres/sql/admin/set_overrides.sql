-- What an operator puts over the declared settings. Primary key.
update {schema}.subscriptions set overrides = $2, updated_at = clock_timestamp() where id = $1
