-- An xid drawn after the sign went up: whoever read "no sign" has a lower one. Burns one xid.
select pg_current_xact_id()::text as xid
