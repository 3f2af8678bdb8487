//! The tables: created, brought up to date, and checked before anything is delivered.

use sqlx::{AssertSqlSafe, SqliteConnection};

use crate::error::{Error, Result};

use super::SqliteStore;

/// Forward-only migrations, oldest first.
const MIGRATIONS: &[&str] = &[include_str!("../../../migrations/sqlite/0001_engine.sql")];

const USE_WAL: &str = "pragma journal_mode = wal";

impl SqliteStore {
    /// The SQL of all migrations, complete, for those who apply it with a tool of their own. The journal mode comes first:
    /// it cannot be changed within a transaction.
    pub(crate) fn printed_migrations(&self) -> Vec<String> {
        let mut texts = migration_texts();
        if let Some(first) = texts.first_mut() {
            first.insert_str(0, &format!("{USE_WAL};\n\n"));
        }
        texts
    }

    /// Readers and the writer do not wait for each other in this journal mode. A database in memory keeps its own.
    pub(crate) async fn use_wal(&self) -> Result<()> {
        let doing = "switch the file to write-ahead logging";
        sqlx::query(USE_WAL).execute(&self.pool).await.map(|_| ()).map_err(Error::database(doing))
    }

    pub(crate) async fn run_migrations(&self) -> Result<()> {
        let doing = "migrate";
        let mut tx = self.begin(doing).await?;
        let applied = applied_version(&mut tx).await?.unwrap_or(0);
        refuse_newer(applied)?;
        for text in migration_texts().into_iter().skip(applied) {
            sqlx::raw_sql(AssertSqlSafe(text)).execute(&mut *tx).await.map_err(Error::database(doing))?;
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

/// A text per version, oldest first; each records the version it brings about.
fn migration_texts() -> Vec<String> {
    MIGRATIONS.iter().enumerate().map(|(index, text)| format!("{text}{}", recorded(index + 1))).collect()
}

fn recorded(version: usize) -> String {
    format!(
        "\ninsert into posthaste_meta (version) values ({version})\n  \
         on conflict (one) do update set version = excluded.version;\n"
    )
}

/// The version that this program works with.
pub(super) fn needed_version() -> usize {
    MIGRATIONS.len()
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
