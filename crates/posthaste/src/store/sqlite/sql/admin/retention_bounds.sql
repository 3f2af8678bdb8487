-- Where retention goes on, and above which seq some lane needs everything. Under the write lock: a subscription that is
-- created or replayed is seen, or comes after. Reads only.
select m.retained_to, (select min(n.needs_after) from posthaste_needs n) as upto from posthaste_meta m
