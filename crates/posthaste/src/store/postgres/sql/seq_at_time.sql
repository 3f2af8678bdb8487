-- The first event enqueued at or after a time; without one, the next that will be. BRIN index events_places.
select coalesce(
  (select min(seq) from {schema}.events where created_at >= $1),
  coalesce(pg_sequence_last_value('{schema}.event_seq'), 0) + 1) as seq
