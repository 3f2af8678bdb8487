-- Everything up to here was looked at and is gone.
update {schema}.meta set retained_to = greatest(retained_to, $1)
