//! The tables: created, brought up to date, and checked before anything is delivered.

use sqlx::SqliteConnection;

use crate::error::{Error, Result};

use super::SqliteStore;

/// Forward-only migrations, oldest first.
const MIGRATIONS: &[&str] = &[include_str!("../../../migrations/sqlite/0001_engine.sql")];

impl SqliteStore {
    /// The SQL of all migrations, for those who apply it with a tool of their own.
    pub(crate) fn migration_texts(&self) -> Vec<String> {
        MIGRATIONS.iter().map(|text| (*text).to_owned()).collect()
    }

    /// Readers and the writer do not wait for each other in this journal mode. A database in memory keeps its own.
    pub(crate) async fn use_wal(&self) -> Result<()> {
        let doing = "switch the file to write-ahead logging";
        sqlx::query("pragma journal_mode = wal")
            .execute(&self.pool)
            .await
            .map(|_| ())
            .map_err(Error::database(doing))
    }

    pub(crate) async fn run_migrations(&self) -> Result<()> {
        let doing = "migrate";
        let mut tx = self.begin(doing).await?;
        let applied = applied_version(&mut tx).await?.unwrap_or(0);
        refuse_newer(applied)?;
        for (index, text) in MIGRATIONS.iter().enumerate().skip(applied) {
            sqlx::raw_sql(*text).execute(&mut *tx).await.map_err(Error::database(doing))?;
            record_version(&mut tx, index + 1).await?;
        }
        tx.commit(doing).await
    }

    /// Refuses to deliver from tables of another version.
    pub(crate) async fn check_database(&self) -> Result<()> {
        let mut conn = self.pool.acquire().await.map_err(Error::database("connect"))?;
        let Some(applied) = applied_version(&mut conn).await? else {
            return Err(Error::Schema(
                "there are no Posthaste tables in this database; run migrate first".into(),
            ));
        };
        refuse_newer(applied)?;
        match applied < MIGRATIONS.len() {
            true => Err(Error::Schema(format!(
                "the tables have version {applied}, this program needs {}; run migrate",
                MIGRATIONS.len()
            ))),
            false => Ok(()),
        }
    }
}

/// The version of the tables, or `None` if there are none.
async fn applied_version(conn: &mut SqliteConnection) -> Result<Option<usize>> {
    let there: bool = sqlx::query_scalar(
        "select exists (select 1 from sqlite_schema where type = 'table' and name = 'posthaste_meta')",
    )
    .fetch_one(&mut *conn)
    .await
    .map_err(Error::database("look for Posthaste's tables"))?;
    if !there {
        return Ok(None);
    }
    let version: Option<i64> = sqlx::query_scalar("select version from posthaste_meta")
        .fetch_optional(conn)
        .await
        .map_err(Error::database("read the schema version"))?;
    Ok(version.map(|version| usize::try_from(version).unwrap_or(usize::MAX)))
}

async fn record_version(conn: &mut SqliteConnection, version: usize) -> Result<()> {
    sqlx::query(
        "insert into posthaste_meta (version) values (?1) on conflict (one) do update set version = excluded.version",
    )
    .bind(i64::try_from(version).unwrap_or(i64::MAX))
    .execute(conn)
    .await
    .map(|_| ())
    .map_err(Error::database("record the schema version"))
}

fn refuse_newer(applied: usize) -> Result<()> {
    match applied > MIGRATIONS.len() {
        true => Err(Error::Schema(format!(
            "the tables have version {applied}, this program knows versions up to {}; use a newer Posthaste",
            MIGRATIONS.len()
        ))),
        false => Ok(()),
    }
}
