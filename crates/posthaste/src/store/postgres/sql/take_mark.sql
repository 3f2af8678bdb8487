-- Takes a mark, in a transaction of its own: see the function. Burns one xid, writes no table.
select floor_seq, floor_xid::text as floor_xid, snapshot::text as snapshot, ceil_seq, durable
from {schema}.take_mark()
