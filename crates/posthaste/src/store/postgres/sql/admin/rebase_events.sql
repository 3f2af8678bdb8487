-- The one exception to "a row is never updated": transaction ids of another cluster mean nothing here. 3 is the oldest
-- ordinary one, so every snapshot of this cluster sees it. Rewrites the whole log, in one transaction.
update {schema}.events set xid = '3' where xid <> '3'::xid8
