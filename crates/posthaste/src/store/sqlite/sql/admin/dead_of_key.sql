-- The dead letters of a key. Index: deliveries_key; reads only, under the write lock.
select d.seq from posthaste_deliveries d where d.subscription = ?1 and d.key = ?2 and d.status = 'dead'
