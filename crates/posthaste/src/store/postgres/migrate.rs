//! The schema: created, brought up to date, and checked before anything is delivered.

use sqlx::{AssertSqlSafe, Executor, Row};

use crate::error::{Error, Result};

use super::PgStore;

/// Forward-only migrations, oldest first.
const MIGRATIONS: &[&str] = &[include_str!("../../../migrations/postgres/0001_engine.sql")];

/// Any number will do, as long as it is the same for all who migrate: two of them must not run at once.
const MIGRATION_LOCK: i64 = 0x706f_7374_6861_7374;

impl PgStore {
    /// The SQL of all migrations, for those who apply it with a tool of their own.
    pub(crate) fn migration_texts(&self) -> Vec<String> {
        MIGRATIONS.iter().map(|text| text.replace("{schema}", self.schema.as_str())).collect()
    }

    pub(crate) async fn run_migrations(&self) -> Result<()> {
        let doing = "migrate";
        let mut tx = self.pool.begin().await.map_err(Error::database(doing))?;
        sqlx::query("select pg_advisory_xact_lock($1)")
            .bind(MIGRATION_LOCK)
            .execute(&mut *tx)
            .await
            .map_err(Error::database(doing))?;
        let schema = self.schema.as_str();
        let create = AssertSqlSafe(format!("create schema if not exists {schema}"));
        tx.execute(create).await.map_err(Error::database(doing))?;
        let applied = self.applied_version(&mut tx).await?.unwrap_or(0);
        refuse_newer(applied)?;
        for (index, text) in self.migration_texts().into_iter().enumerate().skip(applied) {
            tx.execute(AssertSqlSafe(text)).await.map_err(Error::database(doing))?;
            self.record_version(&mut tx, index + 1).await?;
        }
        tx.commit().await.map_err(Error::database(doing))
    }

    /// The version of the tables, or `None` if there are none.
    async fn applied_version(&self, conn: &mut sqlx::PgConnection) -> Result<Option<usize>> {
        let schema = self.schema.as_str();
        let there: bool = sqlx::query_scalar("select to_regclass($1 || '.meta') is not null")
            .bind(schema)
            .fetch_one(&mut *conn)
            .await
            .map_err(Error::database("look for Posthaste's tables"))?;
        if !there {
            return Ok(None);
        }
        let version: Option<i32> =
            sqlx::query_scalar(AssertSqlSafe(format!("select version from {schema}.meta")))
                .fetch_optional(conn)
                .await
                .map_err(Error::database("read the schema version"))?;
        Ok(version.map(|version| usize::try_from(version).unwrap_or(usize::MAX)))
    }

    async fn record_version(&self, conn: &mut sqlx::PgConnection, version: usize) -> Result<()> {
        let statement = format!(
            "insert into {}.meta (version, system_identifier) \
             values ($1, (select system_identifier from pg_control_system())) \
             on conflict (one) do update set version = excluded.version",
            self.schema.as_str()
        );
        sqlx::query(AssertSqlSafe(statement))
            .bind(i32::try_from(version).unwrap_or(i32::MAX))
            .execute(conn)
            .await
            .map(|_| ())
            .map_err(Error::database("record the schema version"))
    }

    /// Refuses to deliver from tables of another version, from a replica, or from a cluster the marks do not belong to.
    pub(crate) async fn check_database(&self) -> Result<()> {
        let mut conn = self.pool.acquire().await.map_err(Error::database("connect"))?;
        let applied = self.applied_version(&mut conn).await?;
        let schema = self.schema.as_str();
        let Some(applied) = applied else {
            return Err(Error::Schema(format!(
                "there are no Posthaste tables in schema `{schema}`; run migrate first"
            )));
        };
        refuse_newer(applied)?;
        if applied < MIGRATIONS.len() {
            return Err(Error::Schema(format!(
                "the tables in schema `{schema}` have version {applied}, this program needs {}; run migrate",
                MIGRATIONS.len()
            )));
        }
        let statement = format!(
            "select m.system_identifier as recorded, c.system_identifier as found, pg_is_in_recovery() as replica \
             from {schema}.meta m, pg_control_system() c"
        );
        let row = sqlx::query(AssertSqlSafe(statement))
            .fetch_one(&mut *conn)
            .await
            .map_err(Error::database("check the database"))?;
        if row.get::<bool, _>("replica") {
            return Err(Error::Schema(
                "this server is a replica; events are claimed on the primary only".into(),
            ));
        }
        let (recorded, found): (i64, i64) = (row.get("recorded"), row.get("found"));
        match recorded == found {
            true => Ok(()),
            false => Err(Error::ClusterChanged { recorded: recorded.to_string(), found: found.to_string() }),
        }
    }
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
