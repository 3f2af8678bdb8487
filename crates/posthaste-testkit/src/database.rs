//! A database of its own for every test, on the servers that `cargo xtask test` starts.

use posthaste::Posthaste;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::{AssertSqlSafe, ConnectOptions, Connection, PgConnection, PgPool};

/// A PostgreSQL server to test on.
#[derive(Debug, Clone)]
pub struct Server {
    /// For messages: `distribution` or `current`.
    pub name: &'static str,
    /// Where it is.
    pub url: String,
}

/// The servers to test on: the distribution's PostgreSQL, and a current one where it could be had.
///
/// # Panics
/// If no server is there: `cargo xtask test` starts them.
pub fn servers() -> Vec<Server> {
    let named = [("distribution", "POSTHASTE_TEST_POSTGRES"), ("current", "POSTHASTE_TEST_POSTGRES_CURRENT")];
    let found: Vec<Server> = named
        .into_iter()
        .filter_map(|(name, variable)| std::env::var(variable).ok().map(|url| Server { name, url }))
        .collect();
    assert!(
        !found.is_empty(),
        "no PostgreSQL to test on: run `cargo xtask test`, or `cargo xtask servers` and export"
    );
    found
}

/// A fresh database with Posthaste's tables in it.
#[derive(Debug, Clone)]
pub struct TestDatabase {
    /// A pool of connections to it.
    pub pool: PgPool,
    /// The log in it.
    pub posthaste: Posthaste,
    /// How to connect to it.
    pub options: PgConnectOptions,
}

impl TestDatabase {
    /// On the first server.
    pub async fn new() -> Self {
        Self::on(&servers()[0]).await
    }

    /// On this server.
    ///
    /// # Panics
    /// If the database cannot be created: a test cannot go on without it.
    pub async fn on(server: &Server) -> Self {
        let empty = Self::empty_on(server).await;
        empty.posthaste.migrate().await.expect("migrate");
        empty
    }

    /// Without any table.
    ///
    /// # Panics
    /// If the database cannot be created.
    pub async fn empty_on(server: &Server) -> Self {
        let name = format!("test_{:016x}", fastrand::u64(..));
        let options: PgConnectOptions = server.url.parse().expect("a PostgreSQL url");
        let mut admin = PgConnection::connect_with(&options).await.expect("connect to the test server");
        sqlx::query(AssertSqlSafe(format!("create database {name}")))
            .execute(&mut admin)
            .await
            .expect("create it");
        let options = options.database(&name).disable_statement_logging();
        let pool =
            PgPoolOptions::new().max_connections(20).connect_with(options.clone()).await.expect("connect");
        Self { posthaste: Posthaste::postgres(pool.clone()), pool, options }
    }

    /// The same database for somebody who holds these of Posthaste's roles and nothing else: `producer`, `relay`, `viewer`.
    ///
    /// # Panics
    /// If the login cannot be created, or cannot connect.
    pub async fn as_member_of(&self, roles: &[&str]) -> Self {
        let login = format!("only_{}", roles.join("_"));
        let groups: Vec<String> = roles.iter().map(|role| format!("posthaste_{role}")).collect();
        // One login for all tests of a server, so that none has to be removed.
        let create = format!(
            "do $$ begin create role {login} login in role {}; \
             exception when duplicate_object or unique_violation then null; end $$",
            groups.join(", ")
        );
        sqlx::raw_sql(AssertSqlSafe(create)).execute(&self.pool).await.expect("a login");
        let options = self.options.clone().username(&login);
        let pool =
            PgPoolOptions::new().max_connections(20).connect_with(options.clone()).await.expect("connect");
        Self { posthaste: Posthaste::postgres(pool.clone()), pool, options }
    }

    /// Another handle with connections of its own, as another process would have.
    ///
    /// # Panics
    /// If it cannot connect.
    pub async fn another(&self) -> Posthaste {
        let pool = PgPoolOptions::new()
            .max_connections(10)
            .connect_with(self.options.clone())
            .await
            .expect("connect");
        Posthaste::postgres(pool)
    }
}
