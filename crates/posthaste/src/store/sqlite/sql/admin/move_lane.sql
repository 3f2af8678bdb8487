-- Moves a lane back: an empty, finished batch that ends there is its newest row from now on. Primary key; takes the
-- write lock.
insert into posthaste_batches (subscription, generation, lane, number, seq_from, seq_to, count, filter_version,
  finished_at)
select ?1, ?2, ?3, ?4, ?5, ?5, 0, s.filter_version, {now} from posthaste_subscriptions s where s.id = ?1
