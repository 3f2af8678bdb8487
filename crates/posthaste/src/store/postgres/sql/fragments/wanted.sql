((select $2::text[]) is null or e.namespace = any ((select $2::text[])::text[]))
  and ((select $3::text[]) is null or e.topic = any ((select $3::text[])::text[]))
  and ((select $4::text[]) is null or e.event_type = any ((select $4::text[])::text[]))
  and ((select $5::uuid[]) is null or e.tenant_id = any ((select $5::uuid[])::uuid[]))
  and ((select $7::bigint) = 1 or
    ((coalesce(hashtextextended(e.key, 0), e.seq) % (select $7::bigint)) + (select $7::bigint)) % (select $7::bigint)
      = (select $6::bigint))
