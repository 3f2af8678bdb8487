-- Moves a lane to a mark: an empty, finished batch that closes its window there is its newest row from now on. Whoever
-- claims with an older cursor fails on the number. Primary key.
insert into {schema}.batches (subscription, generation, lane, number, lo, hi, seq_from, seq_to, count, closes_window,
  filter_version, finished_at)
select $1, $2, $3, $4, $5, $5, 0, 0, 0, true, s.filter_version, clock_timestamp()
from {schema}.subscriptions s where s.id = $1
on conflict do nothing
