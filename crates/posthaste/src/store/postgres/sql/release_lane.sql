-- Gives a lane back; the claim of what is left unfinished is not held against it. Fenced by the token.
with released as (
  update {schema}.lanes set token = null, locked_until = null
  where subscription = $1 and generation = $2 and lane = $3 and token = $4
  returning 1
)
update {schema}.batches set token = null, claims = greatest(claims - 1, 0)
where subscription = $1 and generation = $2 and lane = $3 and token = $4 and finished_at is null
  and exists (select 1 from released)
