-- The next deliveries a verb is for, under the write lock. Never what a worker holds under a live lease. Primary key,
-- from ?2 on.
select d.seq, d.key from posthaste_deliveries d
where {chosen}
order by d.seq
limit ?9
