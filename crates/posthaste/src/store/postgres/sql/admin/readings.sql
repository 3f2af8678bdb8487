-- Which batches of the journal an event was read in. Looks at the newest $2 of each lane: primary keys; locks nothing.
select s.name as subscription, b.claimed_at, b.finished_at, b.locked_by as worker
from {schema}.progress p
join {schema}.subscriptions s on s.id = p.subscription
join {schema}.batches b on b.subscription = p.subscription and b.generation = p.generation and b.lane = p.lane
  and b.number > p.number - $2 and $1 between b.seq_from and b.seq_to
join {schema}.filters f on f.subscription = s.id and f.version = b.filter_version
join {schema}.marks lo on lo.id = b.lo
join {schema}.marks hi on hi.id = b.hi
join {schema}.events e on e.seq = $1
where {schema}.lane_of(e.key, e.seq, p.lanes) = p.lane
  and pg_visible_in_snapshot(e.xid, hi.snapshot) and not {schema}.behind(e.xid, e.seq, lo.snapshot, lo.replay_from)
  and (f.namespaces is null or e.namespace = any (f.namespaces))
  and (f.topics is null or e.topic = any (f.topics))
  and (f.event_types is null or e.event_type = any (f.event_types))
  and (f.tenants is null or e.tenant_id = any (f.tenants))
order by s.name, b.claimed_at
