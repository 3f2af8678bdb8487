//! The inbox's tables: created and brought up to date, independent of the log's.

use sqlx::{AssertSqlSafe, Executor, PgConnection};

use crate::error::{Error, Result};

use super::PgTables;

/// Forward-only migrations, oldest first.
const MIGRATIONS: &[&str] = &[include_str!("../../../migrations/inbox/postgres/0001_inbox.sql")];

/// Any number will do, as long as it is the same for all who migrate an inbox: two of them must not run at once.
const MIGRATION_LOCK: i64 = 0x706f_7374_696e_626f;

impl PgTables {
    pub(super) fn migration_texts(&self) -> Vec<String> {
        MIGRATIONS.iter().map(|text| text.replace("{schema}", self.schema.as_str())).collect()
    }

    pub(super) async fn migrate(&self) -> Result<()> {
        let mut conn = self.pool.acquire().await.map_err(Error::database("connect"))?;
        let applied = self.applied_version(&mut conn).await?;
        match applied.cmp(&MIGRATIONS.len()) {
            std::cmp::Ordering::Less => self.run_migrations(&mut conn).await,
            std::cmp::Ordering::Equal => Ok(()),
            std::cmp::Ordering::Greater => Err(Error::Schema(format!(
                "the inbox's tables have version {applied}, this program knows versions up to {}; use a newer Posthaste",
                MIGRATIONS.len()
            ))),
        }
    }

    async fn run_migrations(&self, conn: &mut PgConnection) -> Result<()> {
        let doing = "migrate the inbox";
        let mut tx = sqlx::Connection::begin(conn).await.map_err(Error::database(doing))?;
        let lock = sqlx::query("select pg_advisory_xact_lock($1)").bind(MIGRATION_LOCK);
        lock.execute(&mut *tx).await.map_err(Error::database(doing))?;
        let create = format!("create schema if not exists {}", self.schema.as_str());
        tx.execute(AssertSqlSafe(create)).await.map_err(Error::database(doing))?;
        // Somebody else may have been faster.
        let applied = self.applied_version(&mut tx).await?;
        for (index, text) in self.migration_texts().into_iter().enumerate().skip(applied) {
            tx.execute(AssertSqlSafe(text)).await.map_err(Error::database(doing))?;
            self.record_version(&mut tx, index + 1).await?;
        }
        tx.commit().await.map_err(Error::database(doing))
    }

    /// The version of the tables, 0 if there are none.
    async fn applied_version(&self, conn: &mut PgConnection) -> Result<usize> {
        let schema = self.schema.as_str();
        let there = sqlx::query_scalar("select to_regclass($1 || '.inbox_meta') is not null").bind(schema);
        let there: bool =
            there.fetch_one(&mut *conn).await.map_err(Error::database("look for the inbox's tables"))?;
        if !there {
            return Ok(0);
        }
        let read = sqlx::query_scalar(AssertSqlSafe(format!("select version from {schema}.inbox_meta")));
        let version: Option<i32> =
            read.fetch_optional(conn).await.map_err(Error::database("read the inbox's version"))?;
        Ok(version.map_or(0, |version| usize::try_from(version).unwrap_or(usize::MAX)))
    }

    async fn record_version(&self, conn: &mut PgConnection, version: usize) -> Result<()> {
        let statement = format!(
            "insert into {}.inbox_meta (version) values ($1) on conflict (one) do update set version = excluded.version",
            self.schema.as_str()
        );
        sqlx::query(AssertSqlSafe(statement))
            .bind(i32::try_from(version).unwrap_or(i32::MAX))
            .execute(conn)
            .await
            .map(|_| ())
            .map_err(Error::database("record the inbox's version"))
    }
}
