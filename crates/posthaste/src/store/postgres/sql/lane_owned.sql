-- Does this token still own the lane? Primary key.
select exists (
  select 1 from {schema}.lanes where subscription = $1 and generation = $2 and lane = $3 and token = $4
) as owned
