-- Letters that match, newest first. Index: dead_letters_of_consumer or primary key; reads only.
select number, consumer, event_id, topic, key, content_type, headers::text as headers, payload, reason, attempts, times,
  status, given_up_at, decided_at
from {schema}.dead_letters
where ($1::text is null or consumer = $1)
  and ($2::text is null or status = $2)
  and ($3::text is null or topic = $3)
  and ($4::text is null or event_id = $4)
  and ($5::text is null or strpos(reason, $5) > 0)
  and ($6::bigint is null or number < $6)
order by number desc
limit $7
