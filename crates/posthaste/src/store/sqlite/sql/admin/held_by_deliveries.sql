-- Which subscriptions have deliveries of events older than ?1 microseconds. Walks over all deliveries; reads only.
select s.name, count(*) filter (where d.status = 'dead') as dead, count(*) filter (where d.status <> 'dead') as waiting
from posthaste_deliveries d
join posthaste_subscriptions s on s.id = d.subscription
join posthaste_events e on e.seq = d.seq
where e.created_at < {now} - ?1
group by s.name
order by s.name
