-- Stores a mark.
insert into {schema}.marks (snapshot, floor_seq, floor_xid, ceil_seq, steps, replay_from)
values ($1::text::pg_snapshot, $2, $3::text::xid8, $4, $5, $6)
returning id
