-- Puts up the sign that a worker is asleep, for $1 milliseconds; never shortens another worker's. Then lets producers ring, unless they
-- may already or will in a moment: a time further away is that of a sign that has come down, or of a clock that was set back. In
-- this order, which CASE keeps: see ring().
select case
  when setval('{schema}.doorbell', greatest(coalesce(pg_sequence_last_value('{schema}.doorbell'), 0), now_ms + $1)) is null
    then null
  when coalesce(pg_sequence_last_value('{schema}.next_ring') > now_ms + 60, true) then setval('{schema}.next_ring', now_ms)
end
from (select (extract(epoch from clock_timestamp()) * 1000)::bigint as now_ms offset 0) clock
