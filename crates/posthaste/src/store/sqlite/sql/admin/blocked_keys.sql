-- Keys that wait: those with parked events and, where a dead letter blocks (?3), those whose head is dead; with the head
-- of each. Looks at no more than ?2 rows of either kind. Indexes: deliveries_parked, deliveries_dead, deliveries_key;
-- reads only.
with parked as materialized (
  select d.key from posthaste_deliveries d indexed by posthaste_deliveries_parked
  where d.subscription = ?1 and d.parked
  order by d.key, d.seq limit ?2
), dead as materialized (
  select d.key from posthaste_deliveries d indexed by posthaste_deliveries_dead
  where ?3 and d.subscription = ?1 and d.status = 'dead'
  order by d.seq limit ?2
), keys as (
  select w.key, count(*) as waiting from parked w group by w.key
  union all
  select distinct k.key, 0 from dead k where k.key is not null and k.key not in (select key from parked)
)
select k.key, k.waiting, (select count(*) from parked) >= ?2 as cut, d.event_id, d.created_at as since, d.status,
  d.attempts, d.next_attempt_at, d.last_error
from keys k
join posthaste_deliveries d on d.subscription = ?1 and d.seq = (
  select min(m.seq) from posthaste_deliveries m
  where m.subscription = ?1 and m.key = k.key and (m.status <> 'dead' or ?3)
)
order by k.waiting desc, k.key
limit ?4
