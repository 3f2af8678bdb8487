case
    when (select $2::text[]) is not null and (e.namespace = any ((select $2::text[])::text[])) is not true then false
    when (select $3::text[]) is not null and (e.topic = any ((select $3::text[])::text[])) is not true then false
    when (select $4::text[]) is not null and (e.event_type = any ((select $4::text[])::text[])) is not true then false
    when (select $5::uuid[]) is not null and (e.tenant_id = any ((select $5::uuid[])::uuid[])) is not true then false
    when (select $7::bigint) <> 1 and
      ((coalesce(hashtextextended(e.key, 0), e.seq) % (select $7::bigint)) + (select $7::bigint)) % (select $7::bigint)
        <> (select $6::bigint) then false
    else true
  end
