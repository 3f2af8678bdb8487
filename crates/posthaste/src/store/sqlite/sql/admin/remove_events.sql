-- Removes events, given as a JSON list of seqs. Primary key; takes the write lock.
delete from posthaste_events where seq in (select value from json_each(?1))
