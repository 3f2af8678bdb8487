-- The newest generation of lanes. Primary key; reads only.
select coalesce(max(generation), 0) as generation from posthaste_lanes where subscription = ?1
