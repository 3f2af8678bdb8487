-- The first event enqueued at or after a time; without one, the next that will be. BRIN index events_places.
select coalesce(
  (select min(seq) from {schema}.events where created_at >= $1),
  (select last_value + 1 from {schema}.event_seq)) as seq
