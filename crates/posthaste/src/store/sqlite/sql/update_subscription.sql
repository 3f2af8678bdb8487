-- Brings a declaration up to date; the number of lanes changes by a split only. Unique index; takes the write lock.
update posthaste_subscriptions
set ordering = ?2, claim_by = ?3, after_dead = ?4, declared = ?5, updated_at = {now}
where name = ?1
