d.subscription = ?1 and d.seq > ?2
  and (d.status <> 'processing' or d.locked_until < {now})
  and (?3 is null or d.status = ?3)
  and (?4 is null or d.event_id in (select value from json_each(?4)))
  and (?5 is null or instr(d.last_error, ?5) > 0)
  and (coalesce(?6, ?7, ?8) is null or exists (
    select 1 from posthaste_events e
    where e.seq = d.seq and (?6 is null or e.key = ?6) and (?7 is null or e.topic = ?7)
      and (?8 is null or e.event_type = ?8)
  ))
