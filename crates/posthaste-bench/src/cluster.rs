//! The private PostgreSQL of this run: databases of their own for each contender, and what the server counts.

use std::collections::BTreeMap;

use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::{AssertSqlSafe, Connection, PgConnection, PgPool, Row};

use crate::measure::Result;

/// The server.
#[derive(Debug, Clone)]
pub(crate) struct Cluster {
    url: String,
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
    /// The server at a URL. The user must be a superuser.
    pub(crate) fn at(url: &str) -> Result<Self> {
        Ok(Self { url: url.to_owned(), options: url.parse()? })
    }

    pub(crate) fn url(&self) -> String {
        self.url.clone()
    }

    /// The URL of one of its databases.
    pub(crate) fn url_of(&self, name: &str) -> Result<String> {
        let (place, _) = self.url.rsplit_once('/').ok_or("the URL names no database")?;
        Ok(format!("{place}/{name}"))
    }

    /// A new empty database.
    pub(crate) async fn create(&self, name: &str) -> Result<()> {
        let mut maintenance = PgConnection::connect_with(&self.options).await?;
        for statement in [
            format!(r#"drop database if exists "{name}" with (force)"#),
            format!(r#"create database "{name}""#),
        ] {
            sqlx::query(AssertSqlSafe(statement)).execute(&mut maintenance).await?;
        }
        Ok(())
    }

    /// A new empty database, with a pool of this many connections.
    pub(crate) async fn database(&self, name: &str, connections: u32) -> Result<PgPool> {
        self.create(name).await?;
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
    pub(crate) async fn settings(&self) -> Result<BTreeMap<String, String>> {
        let mut connection = PgConnection::connect_with(&self.options).await?;
        let mut settings = BTreeMap::new();
        for name in SETTINGS {
            let value = sqlx::query_scalar("select current_setting($1)").bind(name);
            settings.insert(name.to_owned(), value.fetch_one(&mut connection).await?);
        }
        Ok(settings)
    }
}

/// Begins a figure with no dirty page of the one before.
pub(crate) async fn checkpoint(pool: &PgPool) -> Result<()> {
    sqlx::query("checkpoint").execute(pool).await?;
    Ok(())
}

/// Does what the server would do by itself after a load, so that it does not do it in somebody's sample.
pub(crate) async fn calm_down(pool: &PgPool) -> Result<()> {
    sqlx::query("vacuum (analyze)").execute(pool).await?;
    checkpoint(pool).await
}

/// How many bytes of WAL were written up to now.
pub(crate) async fn wal_position(pool: &PgPool) -> Result<f64> {
    let bytes: i64 =
        sqlx::query_scalar("select (pg_current_wal_insert_lsn() - '0/0')::bigint").fetch_one(pool).await?;
    Ok(bytes as f64)
}

/// Dead rows in all tables of the database, as they lie there: the statistics of the server come late.
pub(crate) async fn dead_rows(pool: &PgPool) -> Result<f64> {
    sqlx::query("create extension if not exists pgstattuple").execute(pool).await?;
    let dead: i64 = sqlx::query_scalar(
        "select coalesce(sum((pgstattuple(c.oid)).dead_tuple_count), 0)::bigint \
         from pg_class c join pg_namespace n on n.oid = c.relnamespace \
         where c.relkind = 'r' and n.nspname not in ('pg_catalog', 'information_schema')",
    )
    .fetch_one(pool)
    .await?;
    Ok(dead as f64)
}

/// What the statements of one database have cost since the last [`forget_statements`].
#[derive(Debug, Clone, Copy)]
pub(crate) struct Statements {
    pub(crate) calls: f64,
    /// Pages looked at.
    pub(crate) buffers: f64,
}

pub(crate) async fn forget_statements(pool: &PgPool) -> Result<()> {
    sqlx::query("create extension if not exists pg_stat_statements").execute(pool).await?;
    sqlx::query("select pg_stat_statements_reset()").execute(pool).await?;
    Ok(())
}

pub(crate) async fn statements(pool: &PgPool) -> Result<Statements> {
    let row = sqlx::query(
        "select coalesce(sum(calls), 0)::float8 as calls,
           coalesce(sum(shared_blks_hit + shared_blks_read), 0)::float8 as buffers
         from pg_stat_statements s join pg_database d on d.oid = s.dbid
         where d.datname = current_database() and query !~* 'pg_stat_statements'",
    )
    .fetch_one(pool)
    .await?;
    Ok(Statements { calls: row.get("calls"), buffers: row.get("buffers") })
}
