-- Keeps workers from settling unfinished batches while those become deliveries. Workers lock a batch before they write its
-- deliveries, and so does everybody else, or both wait for each other. Locks the batches' rows, in order. Index: batches_unfinished.
select 1 from {schema}.batches where subscription = $1 and finished_at is null order by generation, lane, number for update
