//! Where a trial takes place: a database of its own, a writer's transactions in it, and the record of acceptances.

use std::path::{Path, PathBuf};

use posthaste::{EventId, NewEvent, Posthaste};
use posthaste_testkit::{Accepted, Ledger, SqliteDatabase, TestDatabase};
use serde::{Deserialize, Serialize};
use sqlx::postgres::PgPoolOptions;
use sqlx::{ConnectOptions, Executor, Row};

/// What a transactional handler writes.
pub(crate) const RECORD: &str = "insert into accepted (id, key, payload) values ($1, $2, $3)";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Store {
    Postgres,
    Sqlite,
}

impl Store {
    pub(crate) const ALL: [Self; 2] = [Self::Postgres, Self::Sqlite];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Postgres => "postgres",
            Self::Sqlite => "sqlite",
        }
    }
}

/// Where the database is, for another process.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) enum Place {
    Postgres(String),
    Sqlite(PathBuf),
}

impl Place {
    pub(crate) async fn open(&self) -> Posthaste {
        match self {
            Self::Postgres(url) => {
                Posthaste::postgres(PgPoolOptions::new().max_connections(8).connect(url).await.unwrap())
            }
            Self::Sqlite(path) => SqliteDatabase::open(path).await,
        }
    }
}

#[derive(Debug)]
pub(crate) enum Stage {
    Postgres(Box<TestDatabase>),
    Sqlite(SqliteDatabase),
}

impl Stage {
    pub(crate) async fn set(store: Store) -> Self {
        match store {
            Store::Postgres => {
                let db = TestDatabase::new().await;
                let table =
                    "create table accepted (n bigserial primary key, id uuid, key text, payload bytea)";
                db.pool.execute(table).await.unwrap();
                Self::Postgres(Box::new(db))
            }
            Store::Sqlite => Self::Sqlite(SqliteDatabase::new().await),
        }
    }

    pub(crate) fn place(&self) -> Place {
        match self {
            Self::Postgres(db) => Place::Postgres(db.options.to_url_lossy().to_string()),
            Self::Sqlite(db) => Place::Sqlite(db.path.clone()),
        }
    }

    pub(crate) fn posthaste(&self) -> &Posthaste {
        match self {
            Self::Postgres(db) => &db.posthaste,
            Self::Sqlite(db) => &db.posthaste,
        }
    }

    /// Enqueues events in one transaction, which is committed or not.
    pub(crate) async fn enqueue(&self, events: Vec<NewEvent>, commits: bool) -> Vec<EventId> {
        macro_rules! in_transaction {
            ($begin:expr) => {{
                let mut tx = $begin.await.unwrap();
                let enqueued = self.posthaste().enqueue_many(&mut tx, events).await.unwrap();
                match commits {
                    true => tx.commit().await.unwrap(),
                    false => tx.rollback().await.unwrap(),
                }
                enqueued
            }};
        }
        let enqueued = match self {
            Self::Postgres(db) => in_transaction!(db.pool.begin()),
            Self::Sqlite(db) => in_transaction!(db.pool.begin_with("begin immediate")),
        };
        enqueued.into_iter().map(|enqueued| enqueued.id).collect()
    }

    /// What handlers accepted, in their order: of transactional ones in a table, of others in a file.
    pub(crate) async fn ledger(&self, record: &Path) -> Ledger {
        let ledger = Ledger::default();
        for line in std::fs::read_to_string(record).unwrap().lines() {
            ledger.accept_raw(accepted(line));
        }
        if let Self::Postgres(db) = self {
            let rows = sqlx::query("select id, key, payload from accepted order by n").fetch_all(&db.pool);
            for row in rows.await.unwrap() {
                let id = EventId(row.get("id"));
                ledger.accept_raw(Accepted { id, key: row.get("key"), payload: row.get("payload") });
            }
        }
        ledger
    }
}

fn accepted(line: &str) -> Accepted {
    let [id, key, body] = line.splitn(3, ' ').collect::<Vec<_>>().try_into().unwrap();
    let id = EventId(uuid::Uuid::parse_str(id).unwrap());
    Accepted { id, key: Some(key.to_owned()), payload: body.as_bytes().to_vec() }
}
