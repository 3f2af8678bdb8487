-- How far the log has grown, committed or not; 0 if nothing was ever enqueued. Reads one page.
select case when is_called then last_value else 0 end from {schema}.event_seq
