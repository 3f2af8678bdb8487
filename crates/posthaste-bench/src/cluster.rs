//! The private PostgreSQL of this run: databases of their own for each contender, and what the server counts.

use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::{AssertSqlSafe, Connection, PgConnection, PgPool};

use crate::measure::Result;

/// The server.
#[derive(Debug, Clone)]
pub(crate) struct Cluster {
    options: PgConnectOptions,
}

/// The settings that decide how fast a commit is, printed with the figures.
const SETTINGS: [&str; 9] = [
    "server_version",
    "fsync",
    "synchronous_commit",
    "full_page_writes",
    "wal_compression",
    "shared_buffers",
    "max_wal_size",
    "checkpoint_timeout",
    "autovacuum",
];

impl Cluster {
    /// The server at a URL. The user must be allowed to create databases and to checkpoint.
    pub(crate) fn at(url: &str) -> Result<Self> {
        Ok(Self { options: url.parse()? })
    }

    /// A new empty database, with a pool of this many connections.
    pub(crate) async fn database(&self, name: &str, connections: u32) -> Result<PgPool> {
        let mut maintenance = PgConnection::connect_with(&self.options).await?;
        for statement in [
            format!(r#"drop database if exists "{name}" with (force)"#),
            format!(r#"create database "{name}""#),
        ] {
            sqlx::query(AssertSqlSafe(statement)).execute(&mut maintenance).await?;
        }
        self.open(name, connections).await
    }

    /// A pool of an existing database.
    pub(crate) async fn open(&self, name: &str, connections: u32) -> Result<PgPool> {
        let options = self.options.clone().database(name);
        let pool = PgPoolOptions::new().max_connections(connections).min_connections(connections);
        Ok(pool.connect_with(options).await?)
    }

    /// A connection apart from every pool.
    pub(crate) async fn connect(&self, name: &str) -> Result<PgConnection> {
        Ok(PgConnection::connect_with(&self.options.clone().database(name)).await?)
    }

    /// Name and value of each setting that matters.
    pub(crate) async fn settings(&self) -> Result<Vec<(&'static str, String)>> {
        let mut connection = PgConnection::connect_with(&self.options).await?;
        let mut settings = Vec::new();
        for name in SETTINGS {
            let value = sqlx::query_scalar("select current_setting($1)").bind(name);
            settings.push((name, value.fetch_one(&mut connection).await?));
        }
        Ok(settings)
    }
}

/// Begins a figure with no dirty page of the one before.
pub(crate) async fn checkpoint(pool: &PgPool) -> Result<()> {
    sqlx::query("checkpoint").execute(pool).await?;
    Ok(())
}

/// How many bytes of WAL were written up to now.
pub(crate) async fn wal_position(pool: &PgPool) -> Result<f64> {
    let bytes: i64 = sqlx::query_scalar("select (pg_current_wal_insert_lsn() - '0/0')::bigint").fetch_one(pool).await?;
    Ok(bytes as f64)
}

/// Dead rows in all tables of the database, as the server counts them.
pub(crate) async fn dead_rows(pool: &PgPool) -> Result<f64> {
    sqlx::query("select pg_stat_clear_snapshot()").execute(pool).await?;
    let dead: i64 = sqlx::query_scalar("select coalesce(sum(n_dead_tup), 0)::bigint from pg_stat_user_tables")
        .fetch_one(pool)
        .await?;
    Ok(dead as f64)
}
