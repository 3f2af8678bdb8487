//! Databases whose time can be moved: a log, and what a schedule does to it beside Posthaste.

use posthaste::{EventId, NewEvent, Posthaste};
use posthaste_testkit::{TestDatabase, sqlite_file};
use sqlx::sqlite::{SqlitePoolOptions, SqliteSynchronous};
use sqlx::{AssertSqlSafe, SqlitePool};

/// A database with a log.
pub(crate) trait Log: Sized {
    async fn fresh() -> Self;
    fn posthaste(&self) -> &Posthaste;
    async fn commit(&self, events: Vec<NewEvent>) -> Vec<EventId>;
    /// What is in the log, in its order.
    async fn ids(&self) -> Vec<EventId>;
    /// Makes everything two hours older.
    async fn age(&self);
    /// Lets every lease run out.
    async fn end_leases(&self);
    /// Removes an event, whoever needs it.
    async fn remove(&self, id: EventId);
}

macro_rules! commit {
    () => {
        async fn commit(&self, events: Vec<NewEvent>) -> Vec<EventId> {
            let mut tx = self.pool.begin().await.expect("begin");
            let enqueued = self.posthaste.enqueue_many(&mut tx, events).await.expect("enqueue");
            tx.commit().await.expect("commit");
            enqueued.into_iter().map(|enqueued| enqueued.id).collect()
        }

        fn posthaste(&self) -> &Posthaste {
            &self.posthaste
        }
    };
}

impl Log for TestDatabase {
    async fn fresh() -> Self {
        Self::new().await
    }

    commit!();

    async fn ids(&self) -> Vec<EventId> {
        let found =
            sqlx::query_scalar("select id from posthaste.events order by seq").fetch_all(&self.pool).await;
        found.expect("the log").into_iter().map(EventId).collect()
    }

    async fn age(&self) {
        for (table, column) in [("events", "created_at"), ("batches", "finished_at"), ("marks", "taken_at")] {
            let sql = format!("update posthaste.{table} set {column} = {column} - interval '2 hours'");
            sqlx::query(AssertSqlSafe(sql)).execute(&self.pool).await.expect("time passes");
        }
    }

    async fn end_leases(&self) {
        for table in ["lanes", "batches", "deliveries"] {
            let sql =
                format!("update posthaste.{table} set locked_until = locked_until - interval '2 hours'");
            sqlx::query(AssertSqlSafe(sql)).execute(&self.pool).await.expect("time passes");
        }
    }

    async fn remove(&self, id: EventId) {
        let sql = "delete from posthaste.events where id = $1";
        sqlx::query(sql).bind(id.0).execute(&self.pool).await.expect("removed");
    }
}

/// A file that nobody syncs: a crash of the machine is not what is tried here.
pub(crate) struct Hasty {
    pool: SqlitePool,
    posthaste: Posthaste,
    _folder: tempfile::TempDir,
}

impl Log for Hasty {
    async fn fresh() -> Self {
        let (folder, path) = sqlite_file();
        let options = posthaste::sqlite_options(path).synchronous(SqliteSynchronous::Off);
        let pool = SqlitePoolOptions::new().max_connections(3).connect_with(options).await.expect("a file");
        let posthaste = Posthaste::sqlite(pool.clone());
        posthaste.migrate().await.expect("migrate");
        Self { pool, posthaste, _folder: folder }
    }

    commit!();

    async fn ids(&self) -> Vec<EventId> {
        let found =
            sqlx::query_scalar::<_, uuid::fmt::Hyphenated>("select id from posthaste_events order by seq");
        let found = found.fetch_all(&self.pool).await.expect("the log");
        found.into_iter().map(|id| EventId(id.into_uuid())).collect()
    }

    async fn age(&self) {
        for (table, column) in [("events", "created_at"), ("batches", "finished_at")] {
            let sql = format!("update posthaste_{table} set {column} = {column} - 7200000000");
            sqlx::query(AssertSqlSafe(sql)).execute(&self.pool).await.expect("time passes");
        }
    }

    async fn end_leases(&self) {
        for table in ["lanes", "batches", "deliveries"] {
            let sql = format!("update posthaste_{table} set locked_until = locked_until - 7200000000");
            sqlx::query(AssertSqlSafe(sql)).execute(&self.pool).await.expect("time passes");
        }
    }

    async fn remove(&self, id: EventId) {
        let sql = "delete from posthaste_events where id = ?";
        sqlx::query(sql).bind(id.0.hyphenated()).execute(&self.pool).await.expect("removed");
    }
}
