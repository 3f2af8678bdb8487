-- A worker has stopped: the others share its lanes. Primary key.
delete from {schema}.workers where subscription = $1 and name = $2
