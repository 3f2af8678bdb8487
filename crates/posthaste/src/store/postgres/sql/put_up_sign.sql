-- Puts up the sign that a worker is asleep, for $1 milliseconds; never shortens another worker's.
select setval('{schema}.doorbell', greatest(b.last_value,
    (extract(epoch from clock_timestamp()) * 1000)::bigint + $1)) as until
from {schema}.doorbell b
