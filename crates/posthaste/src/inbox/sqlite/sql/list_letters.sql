-- Letters that match, newest first. Index: posthaste_inbox_dead_letters_of_consumer or primary key; reads only.
select number, consumer, event_id, topic, key, content_type, headers, payload, reason, attempts, times,
  status, given_up_at, decided_at
from posthaste_inbox_dead_letters
where (?1 is null or consumer = ?1)
  and (?2 is null or status = ?2)
  and (?3 is null or topic = ?3)
  and (?4 is null or event_id = ?4)
  and (?5 is null or instr(reason, ?5) > 0)
  and (?6 is null or number < ?6)
order by number desc
limit ?7
