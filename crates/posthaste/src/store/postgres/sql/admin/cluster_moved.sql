-- Whether the marks were taken in another cluster.
select m.system_identifier <> c.system_identifier as moved from {schema}.meta m, pg_control_system() c
