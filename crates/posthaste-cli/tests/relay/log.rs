//! A log to enqueue into, in SQLite and on every PostgreSQL server.

use posthaste::{NewEvent, Posthaste};
use posthaste_testkit::{Server, TestDatabase, servers};
use serde_json::json;
use sqlx::{PgPool, SqlitePool};

use crate::support::Folder;

pub(crate) struct Log {
    pub(crate) name: String,
    pub(crate) url: String,
    pub(crate) posthaste: Posthaste,
    pub(crate) pool: Pool,
}

pub(crate) enum Pool {
    Postgres(PgPool),
    Sqlite(SqlitePool),
}

impl Log {
    /// SQLite in this folder.
    pub(crate) async fn sqlite(folder: &Folder) -> Self {
        let path = folder.path("shop.db");
        let pool = SqlitePool::connect_with(posthaste::sqlite_options(&path)).await.expect("open the file");
        let posthaste = Posthaste::sqlite(pool.clone());
        posthaste.migrate().await.expect("migrate");
        let url = format!("sqlite:{}", path.display());
        Self { name: "sqlite".to_owned(), url, posthaste, pool: Pool::Sqlite(pool) }
    }

    pub(crate) async fn postgres(server: &Server) -> Self {
        let database = TestDatabase::on(server).await;
        let url = url_of(server, &database);
        Self {
            name: server.name.to_owned(),
            url,
            posthaste: database.posthaste,
            pool: Pool::Postgres(database.pool),
        }
    }

    /// Enqueues so many events of the topic, numbered within their keys, in transactions of a hundred.
    pub(crate) async fn enqueue(&self, topic: &str, from: usize, to: usize, keys: usize) {
        let events: Vec<NewEvent> = (from..to).map(|number| event(topic, number, keys)).collect();
        for part in events.chunks(100) {
            self.commit(part.to_vec()).await;
        }
    }

    /// Enqueues in one transaction.
    pub(crate) async fn commit(&self, events: Vec<NewEvent>) {
        let enqueued = match &self.pool {
            Pool::Postgres(pool) => {
                let mut tx = pool.begin().await.expect("begin");
                let enqueued = self.posthaste.enqueue_many(&mut tx, events).await;
                tx.commit().await.expect("commit");
                enqueued
            }
            Pool::Sqlite(pool) => {
                let mut tx = pool.begin().await.expect("begin");
                let enqueued = self.posthaste.enqueue_many(&mut tx, events).await;
                tx.commit().await.expect("commit");
                enqueued
            }
        };
        enqueued.expect("enqueue");
    }

    pub(crate) async fn execute(&self, statement: &'static str) {
        match &self.pool {
            Pool::Postgres(pool) => drop(sqlx::raw_sql(statement).execute(pool).await.expect("execute")),
            Pool::Sqlite(pool) => drop(sqlx::raw_sql(statement).execute(pool).await.expect("execute")),
        }
    }
}

pub(crate) fn url_of(server: &Server, database: &TestDatabase) -> String {
    let (address, _) = server.url.rsplit_once('/').expect("a database in the URL");
    format!("{address}/{}", database.options.get_database().expect("a name"))
}

fn event(topic: &str, number: usize, keys: usize) -> NewEvent {
    let payload = json!({ "number": number, "private": "p4yl0ad" });
    NewEvent::json(topic, &payload).expect("an event").key(format!("key-{}", number % keys))
}

/// One log of each kind.
pub(crate) async fn all(folder: &Folder) -> Vec<Log> {
    let mut logs = vec![Log::sqlite(folder).await];
    for server in servers() {
        logs.push(Log::postgres(&server).await);
    }
    logs
}

/// What a `file` sink got: the numbers, in order of arrival.
pub(crate) fn numbers(lines: &[serde_json::Value]) -> Vec<u64> {
    lines.iter().map(|line| line["payload"]["number"].as_u64().expect("a number")).collect()
}

/// Panics unless the first arrivals of each key are in order.
pub(crate) fn assert_in_order_per_key(numbers: &[u64], keys: u64) {
    let mut latest = std::collections::HashMap::new();
    let mut seen = std::collections::HashSet::new();
    for number in numbers.iter().filter(|number| seen.insert(**number)) {
        let before = latest.insert(number % keys, *number);
        assert!(before.is_none_or(|before| before < *number), "{number} came after {before:?}");
    }
}
