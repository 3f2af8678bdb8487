-- Which subscriptions have deliveries of events older than $1 microseconds. Primary keys.
select s.name, count(*) filter (where d.status = 'dead') as dead, count(*) filter (where d.status <> 'dead') as waiting
from {schema}.deliveries d
join {schema}.subscriptions s on s.id = d.subscription
join {schema}.events e on e.seq = d.seq
where e.created_at < clock_timestamp() - $1 * interval '1 microsecond'
group by s.name
order by s.name
