//! A schema of its own for every test, in a PostgreSQL server of yours. It goes away with the guard.

use posthaste::{Posthaste, SchemaName};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::{AssertSqlSafe, ConnectOptions, Connection, Executor, PgConnection, PgPool};

use crate::kit::Kit;

/// Two fresh schemas in a server: one for the tables of the application, which the connections of `pool` find without
/// naming it, and one for Posthaste's. Dropping it ends its connections and removes both, and the roles of the log.
#[derive(Debug)]
pub struct PostgresSchema {
    /// Connections whose `search_path` is the application's schema.
    pub pool: PgPool,
    /// The log.
    pub posthaste: Posthaste,
    /// The schema of the application's tables.
    pub schema: String,
    /// The schema of the log, for SQL that calls `enqueue` by name.
    pub log_schema: String,
    options: PgConnectOptions,
}

impl PostgresSchema {
    /// In the database that the URL names; its user must be allowed to create schemas there.
    ///
    /// # Panics
    /// If that fails: a test cannot go on without it.
    pub async fn new(url: &str) -> Self {
        let schema = format!("test_{:016x}", fastrand::u64(..));
        let log_schema = format!("{schema}_log");
        let options: PgConnectOptions = url.parse().expect("a URL such as postgres://user@host/database");
        let options =
            options.application_name(&schema).options([("search_path", &schema)]).disable_statement_logging();
        let pool = PgPoolOptions::new().max_connections(10).connect_with(options.clone()).await;
        let pool = pool.unwrap_or_else(|error| panic!("the test server cannot be reached: {error}"));
        let create = AssertSqlSafe(format!("create schema {schema}"));
        pool.execute(create).await.expect("the user may create schemas in the test database");
        let name = SchemaName::parse(&log_schema).expect("a short name");
        let posthaste = Posthaste::postgres_in(pool.clone(), name);
        // From here on a panic of ours removes what is there.
        let fresh = Self { pool, posthaste, schema, log_schema, options };
        fresh.posthaste.migrate().await.expect("Posthaste's tables can be created");
        fresh
    }

    /// The kit for what is in it.
    pub fn kit(&self) -> Kit {
        Kit::of(&self.posthaste)
    }

    /// Ends the sessions first: an open transaction of a test that failed would hold its tables for ever.
    async fn remove(options: PgConnectOptions, schema: &str, log_schema: &str) -> sqlx::Result<()> {
        let mut conn = PgConnection::connect_with(&options.application_name("posthaste-testkit")).await?;
        let end = "select pg_terminate_backend(pid, 5000) from pg_stat_activity where application_name = $1";
        let end_old = "select pg_terminate_backend(pid) from pg_stat_activity where application_name = $1";
        if sqlx::query(end).bind(schema).execute(&mut conn).await.is_err() {
            // Before PostgreSQL 14 it does not wait; the drop below does.
            sqlx::query(end_old).bind(schema).execute(&mut conn).await?;
        }
        let drop = format!("drop schema if exists {schema}, {log_schema} cascade");
        conn.execute(AssertSqlSafe(drop)).await?;
        // Whoever may not create roles has none to remove, and may not ask for it either.
        let left = "select coalesce(string_agg(rolname, ', '), '') from pg_roles where rolname = any ($1)";
        let names = ["producer", "relay", "viewer"].map(|role| format!("{log_schema}_{role}"));
        let left: String = sqlx::query_scalar(left).bind(&names[..]).fetch_one(&mut conn).await?;
        match left.is_empty() {
            true => Ok(()),
            false => conn.execute(AssertSqlSafe(format!("drop role {left}"))).await.map(|_| ()),
        }
    }
}

impl Drop for PostgresSchema {
    fn drop(&mut self) {
        let (options, schema, log) = (self.options.clone(), self.schema.clone(), self.log_schema.clone());
        // A thread of its own: this one may belong to the runtime of the test, which must not be blocked on from inside.
        let removing = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            runtime.block_on(Self::remove(options, &schema, &log)).map_err(std::io::Error::other)
        });
        if !matches!(removing.join(), Ok(Ok(()))) {
            eprintln!("the schemas {} and {} of a test could not be removed", self.schema, self.log_schema);
        }
    }
}
