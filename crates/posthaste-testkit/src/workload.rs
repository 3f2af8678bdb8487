//! Writers that commit events in every awkward way there is, and know exactly what they committed.
//!
//! Keys are serialised by a row lock, taken before the event is enqueued, so each event knows its place in the commit
//! order of its key. Transactions differ in length, in when they get their xid, and in how they end.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use posthaste::{EventId, NewEvent, Posthaste};
use sqlx::{AssertSqlSafe, Executor, PgConnection, PgPool, Postgres, Transaction};

use crate::ledger::Committed;

/// What the writers do.
#[derive(Debug, Clone, Copy)]
pub struct Workload {
    /// Connections that write at the same time.
    pub writers: u32,
    /// Transactions of each.
    pub transactions: u32,
    /// Hot keys they fight for.
    pub keys: u32,
    /// Longest pause inside a transaction.
    pub longest_pause: Duration,
}

impl Default for Workload {
    fn default() -> Self {
        Self { writers: 16, transactions: 75, keys: 8, longest_pause: Duration::from_millis(8) }
    }
}

/// The record of what was committed, shared by the writers.
#[derive(Debug, Clone, Default)]
pub struct Commits(Arc<Mutex<Vec<Committed>>>);

impl Commits {
    /// All commits so far.
    pub fn all(&self) -> Vec<Committed> {
        self.lock().clone()
    }

    /// How many events were committed so far.
    pub fn len(&self) -> usize {
        self.lock().len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn add(&self, committed: Vec<Committed>) {
        self.lock().extend(committed);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Committed>> {
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

impl Workload {
    /// Creates the application's own tables.
    ///
    /// # Panics
    /// If the database refuses.
    pub async fn prepare(&self, pool: &PgPool) {
        pool.execute("create table if not exists hot (key text primary key, n bigint not null default 0)")
            .await
            .expect("create table hot");
        pool.execute("create table if not exists other (n bigint)").await.expect("create table other");
        for key in 0..self.keys + 1 {
            sqlx::query("insert into hot (key) values ($1) on conflict do nothing")
                .bind(format!("key-{key}"))
                .execute(pool)
                .await
                .expect("insert a hot key");
        }
    }

    /// Runs all writers to their end.
    ///
    /// # Panics
    /// If a writer meets an error.
    pub async fn run(&self, posthaste: &Posthaste, pool: &PgPool, commits: &Commits) {
        let writers: Vec<_> = (0..self.writers)
            .map(|_| {
                let (posthaste, pool, commits, plan) =
                    (posthaste.clone(), pool.clone(), commits.clone(), *self);
                tokio::spawn(async move {
                    for _ in 0..plan.transactions {
                        plan.one_transaction(&posthaste, &pool, &commits).await;
                    }
                })
            })
            .collect();
        for writer in writers {
            writer.await.expect("a writer must not fail");
        }
    }

    async fn one_transaction(&self, posthaste: &Posthaste, pool: &PgPool, commits: &Commits) {
        let mut tx = pool.begin().await.expect("begin");
        if fastrand::u8(..100) < 40 {
            // An early xid: xid order and commit order differ from here on.
            tx.execute("insert into other values (1)").await.expect("write another table");
        }
        self.pause().await;
        let key = format!("key-{}", fastrand::u32(..self.keys));
        let mut written = Vec::new();
        if fastrand::u8(..100) < 20 {
            self.ghost_in_savepoint(posthaste, &mut tx, &key).await;
        }
        match fastrand::u8(..100) {
            0..10 => written.extend(copy_events(&mut tx, &key).await),
            10..35 => written.extend(keyed_events(posthaste, &mut tx, &key, 1 + fastrand::u64(..5)).await),
            35..50 => written.push(keyless_event(posthaste, &mut tx).await),
            _ => written.extend(keyed_events(posthaste, &mut tx, &key, 1).await),
        }
        self.pause().await;
        if fastrand::u8(..100) < 15 {
            tx.rollback().await.expect("roll back");
        } else {
            tx.commit().await.expect("commit");
            commits.add(written);
        }
    }

    /// Events in a savepoint that is rolled back, in a transaction that may commit.
    async fn ghost_in_savepoint(&self, posthaste: &Posthaste, tx: &mut Transaction<'_, Postgres>, key: &str) {
        tx.execute("savepoint s").await.expect("savepoint");
        let ghost = NewEvent::bytes("hot", b"ghost".to_vec()).key(key);
        posthaste.enqueue(tx, ghost).await.expect("enqueue");
        tx.execute("rollback to savepoint s").await.expect("roll back to the savepoint");
    }

    async fn pause(&self) {
        if fastrand::u8(..100) < 60 {
            tokio::time::sleep(self.longest_pause.mul_f64(fastrand::f64())).await;
        }
    }

    /// A transaction that is prepared and left alone for a while before it is committed.
    ///
    /// # Panics
    /// If the server does not allow prepared transactions.
    pub async fn prepared_transaction(
        &self,
        posthaste: &Posthaste,
        pool: &PgPool,
        commits: &Commits,
        wait: Duration,
    ) {
        let mut conn = pool.acquire().await.expect("connect");
        let name = format!("two_phase_{:016x}", fastrand::u64(..));
        conn.execute("begin").await.expect("begin");
        conn.execute("set local posthaste.ring = off").await.expect("PREPARE TRANSACTION allows no NOTIFY");
        let key = format!("key-{}", self.keys);
        let written = keyed_events(posthaste, &mut conn, &key, 3).await;
        conn.execute(AssertSqlSafe(format!("prepare transaction '{name}'"))).await.expect("prepare");
        tokio::time::sleep(wait).await;
        conn.execute(AssertSqlSafe(format!("commit prepared '{name}'"))).await.expect("commit prepared");
        commits.add(written);
    }
}

/// Takes the key's lock, then enqueues: so the place is the place in commit order.
async fn keyed_events(
    posthaste: &Posthaste,
    conn: &mut PgConnection,
    key: &str,
    count: u64,
) -> Vec<Committed> {
    let last = lock_key(conn, key, count).await;
    let places: Vec<u64> = (last + 1 - count..=last).collect();
    let body = |place: &u64| format!("{key}:{place}").into_bytes();
    let events: Vec<NewEvent> =
        places.iter().map(|place| NewEvent::bytes("hot", body(place)).key(key)).collect();
    let enqueued = posthaste.enqueue_many(conn, events).await.expect("enqueue");
    let committed = |(place, enqueued): (&u64, posthaste::Enqueued)| Committed {
        id: enqueued.id,
        place: Some((key.to_owned(), *place)),
        payload: body(place),
    };
    places.iter().zip(enqueued).map(committed).collect()
}

async fn keyless_event(posthaste: &Posthaste, conn: &mut PgConnection) -> Committed {
    let payload = format!("keyless {}", fastrand::u64(..)).into_bytes();
    let enqueued = posthaste.enqueue(conn, NewEvent::bytes("cold", payload.clone())).await.expect("enqueue");
    Committed { id: enqueued.id, place: None, payload }
}

/// A producer that knows only the table: COPY draws xid and seq by the defaults.
async fn copy_events(tx: &mut Transaction<'_, Postgres>, key: &str) -> Vec<Committed> {
    let count = 1 + fastrand::u64(..4);
    let last = lock_key(tx, key, count).await;
    let mut committed = Vec::new();
    let mut text = String::new();
    for place in last + 1 - count..=last {
        let id = uuid::Uuid::now_v7();
        let payload = format!("{key}:{place}").into_bytes();
        let hex: String = payload.iter().map(|byte| format!("{byte:02x}")).collect();
        text += &format!("{id}\thot\t{key}\t\\\\x{hex}\n");
        committed.push(Committed { id: EventId(id), place: Some((key.to_owned(), place)), payload });
    }
    let statement = "copy posthaste.events (id, topic, key, payload) from stdin";
    let mut copy = tx.copy_in_raw(statement).await.expect("copy");
    copy.send(text.as_bytes()).await.expect("send rows");
    copy.finish().await.expect("finish the copy");
    committed
}

async fn lock_key(conn: &mut PgConnection, key: &str, count: u64) -> u64 {
    let n: i64 = sqlx::query_scalar("update hot set n = n + $2 where key = $1 returning n")
        .bind(key)
        .bind(i64::try_from(count).unwrap_or(1))
        .fetch_one(conn)
        .await
        .expect("lock a key");
    n.unsigned_abs()
}
