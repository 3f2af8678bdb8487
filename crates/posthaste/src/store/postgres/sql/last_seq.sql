-- How far the log has grown, committed or not. Reads one page.
select last_value from {schema}.event_seq
