//! The inbox's tables: created and brought up to date, independent of the log's.

use std::time::Duration;

use sqlx::SqliteConnection;

use crate::error::{Error, Result};

use super::SqliteTables;

/// Forward-only migrations, oldest first.
const MIGRATIONS: &[&str] = &[include_str!("../../../migrations/inbox/sqlite/0001_inbox.sql")];

const ATTEMPTS: u32 = 100;

impl SqliteTables {
    pub(super) fn migration_texts(&self) -> Vec<String> {
        MIGRATIONS.iter().map(|text| (*text).to_owned()).collect()
    }

    /// Two that switch the journal mode of a new file at once are in each other's way, whatever their busy timeout.
    pub(super) async fn migrate(&self) -> Result<()> {
        for _ in 0..ATTEMPTS {
            match self.try_migrate().await {
                Err(Error::Conflict { .. }) => {
                    tokio::time::sleep(Duration::from_millis(fastrand::u64(1..=50))).await;
                }
                done => return done,
            }
        }
        self.try_migrate().await
    }

    async fn try_migrate(&self) -> Result<()> {
        self.use_wal().await?;
        let doing = "migrate the inbox";
        let mut tx = self.pool.begin_with("BEGIN IMMEDIATE").await.map_err(Error::database(doing))?;
        let applied = applied_version(&mut tx).await?;
        if applied > MIGRATIONS.len() {
            return Err(Error::Schema(format!(
                "the inbox's tables have version {applied}, this program knows versions up to {}; use a newer Posthaste",
                MIGRATIONS.len()
            )));
        }
        for (index, text) in MIGRATIONS.iter().enumerate().skip(applied) {
            sqlx::raw_sql(*text).execute(&mut *tx).await.map_err(Error::database(doing))?;
            record_version(&mut tx, index + 1).await?;
        }
        tx.commit().await.map_err(Error::database(doing))
    }

    /// Readers and the writer do not wait for each other in this journal mode. A file that has it already is left alone.
    async fn use_wal(&self) -> Result<()> {
        let doing = "switch the file to write-ahead logging";
        let read = sqlx::query_scalar("pragma journal_mode").fetch_one(&self.pool).await;
        let mode: String = read.map_err(Error::database(doing))?;
        if mode == "wal" {
            return Ok(());
        }
        sqlx::query("pragma journal_mode = wal")
            .execute(&self.pool)
            .await
            .map(|_| ())
            .map_err(Error::database(doing))
    }
}

/// The version of the tables, 0 if there are none.
async fn applied_version(conn: &mut SqliteConnection) -> Result<usize> {
    let there: bool = sqlx::query_scalar(
        "select exists (select 1 from sqlite_schema where type = 'table' and name = 'posthaste_inbox_meta')",
    )
    .fetch_one(&mut *conn)
    .await
    .map_err(Error::database("look for the inbox's tables"))?;
    if !there {
        return Ok(0);
    }
    let read = sqlx::query_scalar("select version from posthaste_inbox_meta").fetch_optional(conn).await;
    let version: Option<i64> = read.map_err(Error::database("read the inbox's version"))?;
    Ok(version.map_or(0, |version| usize::try_from(version).unwrap_or(usize::MAX)))
}

async fn record_version(conn: &mut SqliteConnection, version: usize) -> Result<()> {
    sqlx::query(
        "insert into posthaste_inbox_meta (version) values (?1) \
         on conflict (one) do update set version = excluded.version",
    )
    .bind(i64::try_from(version).unwrap_or(i64::MAX))
    .execute(conn)
    .await
    .map(|_| ())
    .map_err(Error::database("record the inbox's version"))
}
