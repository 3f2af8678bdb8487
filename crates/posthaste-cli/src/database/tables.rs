//! Posthaste's tables: are they there, and of the version that this program knows.

use sqlx::AssertSqlSafe;

use super::Pool;
use crate::failure::{Code, Failure};

/// How the tables stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Tables {
    /// Their version; `None`: there are none.
    pub(crate) version: Option<usize>,
    /// The version this program works with.
    pub(crate) needed: usize,
    /// The server follows another one and takes no writes.
    pub(crate) replica: bool,
}

impl Tables {
    pub(super) async fn look(pool: &Pool, schema: &str, needed: usize) -> sqlx::Result<Self> {
        let (version, replica) = match pool {
            Pool::Postgres(pool) => {
                // In a transaction and not prepared: a pooler may stand in between.
                let mut tx = pool.begin().await?;
                let asked = sqlx::query_scalar("select pg_is_in_recovery()").persistent(false);
                let replica = asked.fetch_one(&mut *tx).await?;
                (postgres_version(&mut tx, schema).await?, replica)
            }
            Pool::Sqlite(pool) => (sqlite_version(pool).await?, false),
        };
        let version = version.map(|version| usize::try_from(version).unwrap_or(usize::MAX));
        Ok(Self { version, needed, replica })
    }

    /// A sentence with the remedy, unless deliveries can be made from here.
    pub(crate) fn problem(&self) -> Option<String> {
        let needed = self.needed;
        match self.version {
            _ if self.replica => Some(
                "this server is a replica; name the primary in database.url: events are claimed only there"
                    .into(),
            ),
            None => Some("Posthaste's tables are not there; run `posthaste migrate` first".into()),
            Some(version) if version < needed => Some(format!(
                "Posthaste's tables have version {version}, this program needs {needed}; run `posthaste migrate`"
            )),
            Some(version) if version > needed => Some(format!(
                "Posthaste's tables have version {version}, this program knows versions up to {needed}; use a newer \
                 posthaste"
            )),
            Some(_) => None,
        }
    }

    /// Fails unless this program knows these tables.
    pub(crate) fn readable(&self) -> Result<(), Failure> {
        Self { replica: false, ..*self }.ready()
    }

    /// Fails unless deliveries can be made from here.
    pub(crate) fn ready(&self) -> Result<(), Failure> {
        self.problem().map_or(Ok(()), |sentence| Err(Failure::Coded(Code::Configuration, sentence)))
    }
}

async fn postgres_version(conn: &mut sqlx::PgConnection, schema: &str) -> sqlx::Result<Option<i64>> {
    let there: bool = sqlx::query_scalar("select to_regclass($1 || '.meta') is not null")
        .bind(schema)
        .persistent(false)
        .fetch_one(&mut *conn)
        .await?;
    match there {
        // The schema's name was parsed: it holds nothing but letters, digits and underscores.
        true => {
            let statement = format!("select version::bigint from {schema}.meta");
            sqlx::query_scalar(AssertSqlSafe(statement)).persistent(false).fetch_optional(conn).await
        }
        false => Ok(None),
    }
}

async fn sqlite_version(pool: &sqlx::SqlitePool) -> sqlx::Result<Option<i64>> {
    let there: bool = sqlx::query_scalar(
        "select exists (select 1 from sqlite_schema where type = 'table' and name = 'posthaste_meta')",
    )
    .fetch_one(pool)
    .await?;
    match there {
        true => sqlx::query_scalar("select version from posthaste_meta").fetch_optional(pool).await,
        false => Ok(None),
    }
}
