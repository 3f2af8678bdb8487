-- Which of these keys have an event that later ones must wait for. Index: deliveries_key; reads only.
select distinct d.key from posthaste_deliveries d
where d.subscription = ?1 and d.key in (select value from json_each(?2)) and (d.status <> 'dead' or ?3)
