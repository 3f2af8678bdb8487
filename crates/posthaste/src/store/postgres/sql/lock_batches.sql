-- Keeps claimers that own no lane (order `none`) from claiming while the lanes are split: they lock nothing else.
lock table {schema}.batches in share row exclusive mode
