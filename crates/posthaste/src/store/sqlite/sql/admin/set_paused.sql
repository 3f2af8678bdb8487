-- Pauses or resumes, unless it is so already. Primary key; takes the write lock.
update posthaste_subscriptions
set paused_at = case when ?2 then {now} end, updated_at = {now}
where id = ?1 and (paused_at is null) = ?2
