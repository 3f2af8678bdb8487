-- One letter. Index: primary key; reads only.
select number, consumer, event_id, topic, key, content_type, headers::text as headers, payload, reason, attempts, times,
  status, given_up_at, decided_at
from {schema}.dead_letters
where number = $1
