//! The schema: created, brought up to date, and checked before anything is delivered.

use sqlx::{AssertSqlSafe, Executor, PgConnection, Row};

use crate::error::{Error, Result};

use super::PgStore;

/// Forward-only migrations, oldest first.
const MIGRATIONS: &[&str] = &[include_str!("../../../migrations/postgres/0001_engine.sql")];

/// Run after all of them by every `migrate`, and any number of times.
const ROLES: &str = include_str!("../../../migrations/postgres/roles.sql");

/// Any number will do, as long as it is the same for all who migrate: two of them must not run at once.
const MIGRATION_LOCK: i64 = 0x706f_7374_6861_7374;

impl PgStore {
    /// A text per version, oldest first. Each is complete: the first creates the schema, and each records the version it
    /// brings about.
    fn migration_texts(&self) -> Vec<String> {
        let schema = self.schema.as_str();
        let create = format!("create schema if not exists {schema};\n\n");
        let begin = std::iter::once(create).chain(std::iter::repeat(String::new()));
        let texts = MIGRATIONS.iter().map(|text| text.replace("{schema}", schema));
        let whole =
            |(index, (begin, text)): (usize, (String, String))| begin + &text + &recorded(schema, index + 1);
        begin.zip(texts).enumerate().map(whole).collect()
    }

    fn roles_text(&self) -> String {
        ROLES.replace("{schema}", self.schema.as_str())
    }

    /// All that `migrate` runs.
    pub(crate) fn printed_migrations(&self) -> Vec<String> {
        self.migration_texts().into_iter().chain([self.roles_text()]).collect()
    }

    pub(crate) async fn run_migrations(&self) -> Result<()> {
        self.bring_up_to_date().await?;
        self.give_rights().await
    }

    async fn bring_up_to_date(&self) -> Result<()> {
        let doing = "migrate";
        let mut conn = self.lend(doing).await?;
        let mut tx = conn.begin(doing).await?;
        self.run_alone(&mut tx, doing).await?;
        let applied = self.applied_version(&mut tx).await?.unwrap_or(0);
        refuse_newer(applied)?;
        for text in self.migration_texts().into_iter().skip(applied) {
            tx.execute(AssertSqlSafe(text)).await.map_err(Error::database(doing))?;
        }
        tx.commit().await.map_err(Error::database(doing))
    }

    /// In a transaction of its own: roles belong to the whole cluster, and who migrates another database must not wait until
    /// the tables of this one are made.
    async fn give_rights(&self) -> Result<()> {
        let doing = "create the roles and give them their rights";
        let mut conn = self.lend(doing).await?;
        let mut tx = conn.begin(doing).await?;
        self.run_alone(&mut tx, doing).await?;
        tx.execute(AssertSqlSafe(self.roles_text())).await.map_err(Error::database(doing))?;
        tx.commit().await.map_err(Error::database(doing))
    }

    /// Waits until no other transaction of these is under way, and keeps others waiting until this one ends.
    async fn run_alone(&self, conn: &mut PgConnection, doing: &'static str) -> Result<()> {
        let lock = self.query("select pg_advisory_xact_lock($1)").bind(MIGRATION_LOCK);
        lock.execute(conn).await.map(|_| ()).map_err(Error::database(doing))
    }

    /// The version of the tables, or `None` if there are none.
    async fn applied_version(&self, conn: &mut sqlx::PgConnection) -> Result<Option<usize>> {
        let schema = self.schema.as_str();
        let there: bool = self
            .query_scalar("select to_regclass($1 || '.meta') is not null")
            .bind(schema)
            .fetch_one(&mut *conn)
            .await
            .map_err(Error::database("look for Posthaste's tables"))?;
        if !there {
            return Ok(None);
        }
        let version: Option<i32> = self
            .query_scalar(AssertSqlSafe(format!("select version from {schema}.meta")))
            .fetch_optional(conn)
            .await
            .map_err(Error::database("read the schema version"))?;
        Ok(version.map(|version| usize::try_from(version).unwrap_or(usize::MAX)))
    }

    /// Refuses to deliver from tables of another version, from a replica, or from a cluster the marks do not belong to.
    pub(crate) async fn check_database(&self) -> Result<()> {
        let mut conn = self.lend("connect").await?;
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
        let row = self
            .query(AssertSqlSafe(statement))
            .fetch_one(&mut conn)
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

/// Writes the version down, and whose transaction ids the marks are made of.
fn recorded(schema: &str, version: usize) -> String {
    format!(
        "\ninsert into {schema}.meta (version, system_identifier)\n  \
         values ({version}, (select system_identifier from pg_control_system()))\n  \
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
