-- One stored mark. Primary key.
select id, snapshot::text as snapshot, floor_seq, floor_xid::text as floor_xid, ceil_seq, steps, replay_from
from {schema}.marks
where id = $1
