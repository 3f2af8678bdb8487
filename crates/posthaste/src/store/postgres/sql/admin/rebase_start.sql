-- The start of a subscription in terms of the new cluster: what lay behind it is told by its seq from now on.
with start as (
  select least(m.replay_from, m.ceil_seq + 1) as from_seq from {schema}.lanes l
  join {schema}.marks m on m.id = l.start_mark
  where l.subscription = $1 and l.generation = 1 and l.lane = 0
), moved as (
  insert into {schema}.marks (snapshot, floor_seq, floor_xid, ceil_seq, steps, replay_from)
  select m.snapshot, m.floor_seq, m.floor_xid, m.ceil_seq, m.steps, start.from_seq
  from start, {schema}.marks m where m.id = $2
  returning id
)
update {schema}.lanes l set start_mark = moved.id from moved where l.subscription = $1 and l.generation = 1
