-- What this connection sees of the log now. Draws an xid, so that events of the same transaction can be told from all
-- others later. Reads only; BRIN events_places, or the whole log of a test.
select pg_current_xact_id()::text as xid, pg_current_snapshot()::text as snapshot,
  (select coalesce(max(e.seq), 0) from {schema}.events e
   where xid8send(e.xid) = xid8send(pg_current_xact_id())) as seq
