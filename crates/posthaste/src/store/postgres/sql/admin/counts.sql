-- Counts of a subscription's deliveries, each up to $2. Indexes: deliveries_due, deliveries_parked, deliveries_leased,
-- deliveries_dead, batches_unfinished; of a delayed event also the primary key of the log.
with due as materialized (
  select d.seq, d.attempts, d.next_attempt_at, d.last_error, d.updated_at from {schema}.deliveries d
  where d.subscription = $1 and d.status = 'pending' and not d.parked
  order by d.next_attempt_at, d.seq limit $2
), parked as materialized (
  select d.seq, d.key, d.attempts, d.last_error, d.updated_at from {schema}.deliveries d
  where d.subscription = $1 and d.parked
  order by d.key, d.seq limit $2
), leased as materialized (
  select d.seq, d.last_error, d.updated_at from {schema}.deliveries d
  where d.subscription = $1 and d.status = 'processing'
  order by d.locked_until limit $2
), dead as materialized (
  select d.seq, d.last_error, d.updated_at from {schema}.deliveries d
  where d.subscription = $1 and d.status = 'dead'
  order by d.seq desc limit $2
), open as materialized (
  select b.seq_from, b.done_to, b.last_error, b.claimed_at from {schema}.batches b
  where b.subscription = $1 and b.finished_at is null
), waiting as (
  select w.seq from due w
  where w.attempts > 0 or w.next_attempt_at <= clock_timestamp() or not exists (
    select 1 from {schema}.events e where e.seq = w.seq and e.available_at > clock_timestamp()
  )
  union all select seq from parked union all select seq from leased
  union all select greatest(seq_from, done_to + 1) from open
)
select
  (select count(*) from due) as due,
  (select count(*) from due where attempts > 0) as due_tried,
  (select count(*) from due where attempts = 0 and next_attempt_at > clock_timestamp()) as delayed,
  (select count(*) from parked) as parked,
  (select count(*) from parked where attempts > 0) as parked_tried,
  (select count(distinct key) from parked) as parked_keys,
  (select count(*) from leased) as leased,
  (select count(*) from dead) as dead,
  (select max(updated_at) from dead) as newest_dead_at,
  (select min(next_attempt_at) from due where attempts > 0) as oldest_retry_due,
  (select e.created_at from {schema}.events e where e.seq >= (select min(seq) from waiting) order by e.seq limit 1)
    as oldest_at,
  (select t.last_error from (
     select last_error, updated_at from due union all select last_error, updated_at from parked
     union all select last_error, updated_at from leased union all select last_error, updated_at from dead
     union all select last_error, claimed_at from open
   ) t where t.last_error is not null order by t.updated_at desc limit 1) as last_error,
  clock_timestamp() as now
