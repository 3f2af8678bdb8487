-- For the rest of the transaction: joins as they are written, and nothing compiled. Planning the view of all states takes a
-- third of a second otherwise, and running it on the log of a test a millisecond. Reads nothing.
select set_config('join_collapse_limit', '1', true), set_config('jit', 'off', true)
