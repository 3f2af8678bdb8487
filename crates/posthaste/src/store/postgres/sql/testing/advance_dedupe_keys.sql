-- Moves the ends of dedupe keys back. Locks all of them; walks over all keys of a test.
update {schema}.dedupe_keys
set expires_at = expires_at - $1 * interval '1 microsecond'
