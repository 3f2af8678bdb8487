-- Where a lane stands, with its marks and the filter in force. Primary keys throughout; the newest batch is found from
-- the right end of the index.
select p.number, p.inserted_at, p.pos, l.stop_mark,
  lo.id as lo_id, lo.snapshot::text as lo_snapshot, lo.floor_seq as lo_floor_seq, lo.floor_xid::text as lo_floor_xid,
  lo.ceil_seq as lo_ceil_seq, lo.steps as lo_steps, lo.replay_from as lo_replay_from,
  extract(epoch from clock_timestamp() - lo.taken_at)::float8 as lo_age,
  hi.id as hi_id, hi.snapshot::text as hi_snapshot, hi.floor_seq as hi_floor_seq, hi.floor_xid::text as hi_floor_xid,
  hi.ceil_seq as hi_ceil_seq, hi.steps as hi_steps, hi.replay_from as hi_replay_from,
  f.version, f.namespaces, f.topics, f.event_types, f.tenants
from {schema}.progress p
join {schema}.lanes l using (subscription, generation, lane)
join {schema}.marks lo on lo.id = p.lo
left join {schema}.marks hi on hi.id = p.hi
join {schema}.subscriptions s on s.id = p.subscription
join {schema}.filters f on f.subscription = s.id and f.version = s.filter_version
where p.subscription = $1 and p.generation = $2 and p.lane = $3
