-- A line about what a person did.
insert into {schema}.operations (who, verb, subscription, detail) values ($1, $2, $3, $4)
