-- Which of these keys have an event that later ones must wait for. Index: deliveries_key.
select distinct d.key from {schema}.deliveries d
where d.subscription = $1 and d.key = any ($2) and (d.status <> 'dead' or $3)
