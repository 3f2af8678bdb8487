-- Creates the subscription or brings its declaration up to date; a filter that differs gets the next version.
-- Locks the subscription's row; unique index on the name.
insert into {schema}.subscriptions as s (name, ordering, claim_by, after_dead, lanes, declared)
values ($1, $2, $3, $4, $5, $6)
on conflict (name) do update set
  ordering = excluded.ordering, claim_by = excluded.claim_by, after_dead = excluded.after_dead,
  declared = excluded.declared, updated_at = clock_timestamp()
returning s.id, s.lanes, s.filter_version, (xmax = 0) as created
