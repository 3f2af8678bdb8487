-- Wakes every worker: a subscription was declared anew, and an idle one should look at it.
select pg_notify('{schema}', '')
