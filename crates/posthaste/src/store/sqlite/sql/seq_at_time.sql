-- The first event enqueued at or after a time; without one, the next that will be. Reads only, along the primary key
-- from the head of the log: only a new subscription and a replay ask.
select coalesce(
  (select e.seq from posthaste_events e where e.created_at >= ?1 order by e.seq limit 1),
  (select s.seq + 1 from sqlite_sequence s where s.name = 'posthaste_events'), 1) as seq
