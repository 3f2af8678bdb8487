-- Records the cluster we talk to.
update {schema}.meta set system_identifier = (select system_identifier from pg_control_system())
