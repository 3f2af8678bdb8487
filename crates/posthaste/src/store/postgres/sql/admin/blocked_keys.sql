-- Keys that wait: those with parked events and, where a dead letter blocks ($3), those whose head is dead; with the head
-- of each. Looks at no more than $2 rows of either kind. Indexes: deliveries_parked, deliveries_dead, deliveries_key;
-- locks nothing.
with parked as materialized (
  select d.key from {schema}.deliveries d
  where d.subscription = $1 and d.parked
  order by d.key, d.seq limit $2
), dead as materialized (
  select d.key from {schema}.deliveries d
  where $3 and d.subscription = $1 and d.status = 'dead'
  order by d.seq limit $2
), keys as (
  select p.key, count(*) as waiting from parked p group by p.key
  union all
  select distinct k.key, 0 from dead k where k.key is not null and not exists (select 1 from parked p where p.key = k.key)
)
select k.key, k.waiting, (select count(*) from parked) >= $2 as cut, h.event_id, h.since, h.status, h.attempts,
  h.next_attempt_at, h.last_error
from keys k
cross join lateral (
  select d.event_id, d.created_at as since, d.status, d.attempts, d.next_attempt_at, d.last_error from {schema}.deliveries d
  where d.subscription = $1 and d.key = k.key and (d.status <> 'dead' or $3)
  order by d.seq limit 1
) h
order by k.waiting desc, k.key
limit $4
