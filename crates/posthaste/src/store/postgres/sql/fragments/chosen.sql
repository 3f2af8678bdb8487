d.subscription = $1 and d.seq > $2
  and (d.status <> 'processing' or d.locked_until < clock_timestamp())
  and ($3::text is null or d.status = $3)
  and ($4::uuid[] is null or d.event_id = any ($4))
  and ($5::text is null or position($5 in d.last_error) > 0)
  and (num_nulls($6::text, $7::text, $8::text) = 3 or exists (
    select 1 from {schema}.events e
    where e.seq = d.seq and ($6 is null or e.key = $6) and ($7 is null or e.topic = $7)
      and ($8 is null or e.event_type = $8)
  ))
