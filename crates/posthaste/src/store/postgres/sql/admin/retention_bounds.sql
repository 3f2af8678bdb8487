-- Where retention goes on, how far it can come at most, and below which seq every transaction has ended: a mark whose
-- own xid is older than everything that runs bounds what may still be committed.
select m.retained_to,
  (select min(least(n.ceil_seq, n.replay_from - 1)) from {schema}.needs n) as upto,
  (select max(k.floor_seq) from {schema}.marks k where k.floor_xid < pg_snapshot_xmin(pg_current_snapshot())) as ended
from {schema}.meta m
