-- Delivered: the rows go, if the token is still the holder's. Primary key.
delete from {schema}.deliveries d
using unnest($2::bigint[], $3::uuid[]) as i (seq, token)
where d.subscription = $1 and d.seq = i.seq and d.token = i.token
returning d.seq, d.key
