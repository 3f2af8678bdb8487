-- Which lanes still need events older than $1 microseconds, and the oldest each needs. Primary key, from where the lane
-- has seen everything; looks at no more than 10,000 events per lane.
select s.name, n.lane, s.paused_at is not null as paused, e.seq,
  (extract(epoch from clock_timestamp() - e.created_at) * 1000000)::bigint as age
from {schema}.needs n
join {schema}.subscriptions s on s.id = n.subscription
cross join lateral (
  select c.seq, c.created_at from (
    select e.seq, e.xid, e.created_at from {schema}.events e where e.seq > n.unseen_after order by e.seq limit 10000
  ) c
  where not {schema}.behind(c.xid, c.seq, n.snapshot, n.replay_from)
  order by c.seq limit 1
) e
where e.created_at < clock_timestamp() - $1 * interval '1 microsecond'
order by s.name, n.lane
