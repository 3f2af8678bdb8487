-- Claims due deliveries: pending -> processing, the attempt counted, a new token. Rows marked solo are claimed one at a
-- time. Locks those rows, skips locked ones. Index: deliveries_due, then primary keys: the
-- array and the lateral join keep the planner from joining whole tables.
with due as (
  select d.seq, d.solo, row_number() over (order by d.next_attempt_at, d.seq) as place
  from (
    select p.seq, p.solo, p.next_attempt_at from {schema}.deliveries p
    where p.subscription = $1 and p.status = 'pending' and not p.parked and p.next_attempt_at <= clock_timestamp()
      and (not p.solo or $6)
    order by p.next_attempt_at, p.seq
    limit $5
    for update skip locked
  ) d
), chosen as (
  select seq from due
  where not solo or (place = (select min(place) from due where solo))
), claimed as (
  update {schema}.deliveries d
  set status = 'processing', attempts = d.attempts + 1, token = $2, locked_by = $3,
    locked_until = clock_timestamp() + $4 * interval '1 microsecond', updated_at = clock_timestamp()
  where d.subscription = $1 and d.seq = any (array (select seq from chosen))
  returning d.seq, d.key, d.attempts, d.steps, d.solo, d.edited_payload
)
select {columns}, c.key as order_key, c.attempts, c.steps, c.solo, c.edited_payload
from claimed c
cross join lateral (select * from {schema}.events e where e.seq = c.seq limit 1) e
order by e.seq
