-- Claims due deliveries: pending -> processing, the attempt counted, a new token. Rows marked solo are claimed one at a
-- time. Index: deliveries_due; takes the write lock.
with due as materialized (
  select p.seq, p.solo, p.next_attempt_at from posthaste_deliveries p
  where p.subscription = ?1 and p.status = 'pending' and not p.parked and p.next_attempt_at <= {now}
    and (not p.solo or ?6)
  order by p.next_attempt_at, p.seq
  limit ?5
)
update posthaste_deliveries
set status = 'processing', attempts = attempts + 1, token = ?2, locked_by = ?3, locked_until = {now} + ?4,
  updated_at = {now}
where subscription = ?1 and seq in (
  select seq from due
  where not solo or seq = (select f.seq from due f where f.solo order by f.next_attempt_at, f.seq limit 1)
)
returning seq
