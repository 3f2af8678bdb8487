-- The events that this connection sees and did not see at the mark; within the mark's own transaction only those of that
-- transaction. Reads only, the whole log of a test.
select {columns}
from {schema}.events e
where case
  when e.xid = ($1::text)::xid8 then e.seq > $3
  when pg_current_xact_id_if_assigned() = ($1::text)::xid8 then false
  else not pg_visible_in_snapshot(e.xid, ($2::text)::pg_snapshot) end
order by e.seq
