-- Claims a page: inserting `number + 1` can succeed once only. Without a token it is finished as it is written. Primary
-- key; runs under the write lock, after the lane's owner was checked.
insert into posthaste_batches (subscription, generation, lane, number, seq_from, seq_to, count, filter_version, token,
  locked_by, locked_until, finished_at)
values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, {now} + ?11, case when ?9 is null then {now} end)
