-- The next deliveries a verb is for, locked. Never what a worker holds under a live lease, and never a row that somebody
-- changes at this moment. Primary key, from $2 on.
select d.seq, d.key from {schema}.deliveries d
where {chosen}
order by d.seq
limit $9
for update of d skip locked
