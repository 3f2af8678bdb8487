-- Where the lanes at work stand, with their marks. Primary keys; the newest batch from the right end of the index.
select p.generation, p.lane, p.lanes, p.number, p.pos,
  p.lo_id, p.lo_snapshot::text as lo_snapshot, p.lo_floor_seq, p.lo_floor_xid::text as lo_floor_xid, p.lo_ceil_seq,
  p.lo_steps, p.lo_replay_from,
  p.hi_id, p.hi_snapshot::text as hi_snapshot, p.hi_floor_seq, p.hi_floor_xid::text as hi_floor_xid, p.hi_ceil_seq,
  p.hi_steps, p.hi_replay_from
from {schema}.positions p
where p.subscription = $1
order by p.lane
