-- The next ?4 events after ?1, up to ?2: whether each is older than ?3 microseconds, and whether no delivery refers to
-- it. Primary key; deliveries_event; reads only, under the write lock.
select e.seq, e.created_at < {now} - ?3 as old,
  not exists (select 1 from posthaste_deliveries d where d.seq = e.seq) as free
from posthaste_events e
where e.seq > ?1 and e.seq <= ?2
order by e.seq
limit ?4
