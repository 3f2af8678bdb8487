-- A replay from before the start of a subscription: from now on it begins there. Primary keys.
with start as (
  select m.snapshot, m.floor_seq, m.floor_xid, m.ceil_seq, m.steps from {schema}.lanes l
  join {schema}.marks m on m.id = l.start_mark
  where l.subscription = $1 and l.generation = 1 and l.lane = 0 and (m.replay_from is null or m.replay_from > $2)
), moved as (
  insert into {schema}.marks (snapshot, floor_seq, floor_xid, ceil_seq, steps, replay_from)
  select snapshot, floor_seq, floor_xid, ceil_seq, steps, $2 from start
  returning id
)
update {schema}.lanes l set start_mark = moved.id from moved where l.subscription = $1 and l.generation = 1
