-- Which lanes still need events older than ?1 microseconds, and the oldest each needs. Primary keys; reads only.
select s.name, n.lane, s.paused_at is not null as paused, e.seq, {now} - e.created_at as age
from posthaste_needs n
join posthaste_subscriptions s on s.id = n.subscription
cross join posthaste_events e on e.seq = (
  select o.seq from posthaste_events o where o.seq > n.needs_after order by o.seq limit 1
)
where e.created_at < {now} - ?1
order by s.name, n.lane
