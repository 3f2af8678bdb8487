-- Pauses or resumes, unless it is so already. Locks the subscription's row.
update {schema}.subscriptions
set paused_at = case when $2 then clock_timestamp() end, updated_at = clock_timestamp()
where id = $1 and (paused_at is null) = $2
