-- Gives a lane back. Fenced by the token; primary key; takes the write lock.
update posthaste_lanes set token = null, locked_until = null
where subscription = ?1 and generation = ?2 and lane = ?3 and token = ?4
