-- Keeps every owner from claiming while the lanes are split or moved. Locks the lanes' rows, in order.
select 1 from {schema}.lanes where subscription = $1 and finished_at is null order by generation, lane for update
