-- Delivered: the rows go, if the token is still the holder's. Given as a JSON list. Primary key; takes the write lock.
delete from posthaste_deliveries
where subscription = ?1 and (seq, token) in (select value ->> 'seq', value ->> 'token' from json_each(?2))
returning seq, key
