//! The store against real files: what each step promises, one sentence per test.

use std::time::Duration;

use sqlx::sqlite::SqlitePoolOptions;
use tempfile::TempDir;

use crate::event::{Enqueued, NewEvent};
use crate::id::{EventId, Token, WorkerName};
use crate::lease::{
    Batch, ClaimedEvent, DeliveryClaim, DeliverySettlement, Holder, Lane, LaneClaim, Reader, Settlement,
    Trouble,
};
use crate::store::{BatchRef, Cursor, Fresh, Store};
use crate::subscription::{Order, Subscription};

use super::{SqliteStore, sqlite_options};

mod schema;
mod enqueue;
mod claim;
mod takeover;
mod deliveries;
mod lanes;
mod race;

const LONG: Duration = Duration::from_secs(60);
const SHORT: Duration = Duration::from_millis(5);

/// A store on a file of its own, which goes when the test ends.
struct Bench {
    store: SqliteStore,
    dir: TempDir,
}

impl Bench {
    async fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let bench = Self { store: open(&dir).await, dir };
        bench.store.migrate().await.unwrap();
        bench
    }

    /// Another pool on the same file, as another process would have.
    async fn again(&self) -> SqliteStore {
        open(&self.dir).await
    }

    async fn subscribe(&self, subscription: Subscription) -> Reader {
        self.store.declare(&subscription).await.unwrap()
    }

    /// Enqueues in one transaction and commits.
    async fn enqueue(&self, events: &[NewEvent]) -> Vec<Enqueued> {
        let mut tx = self.store.pool.begin().await.unwrap();
        let enqueued = self.store.enqueue(&mut tx, events).await.unwrap();
        tx.commit().await.unwrap();
        enqueued
    }

    /// One event per key, in this order.
    async fn enqueue_keys(&self, keys: &[&str]) {
        let events: Vec<NewEvent> = keys.iter().map(|key| event().key(*key)).collect();
        self.enqueue(&events).await;
    }

    async fn fresh(&self, reader: &Reader, lane: Lane, owner: Option<Token>, holder: &Holder) -> Fresh {
        self.store.claim_fresh(reader, lane, owner, holder, &mut Cursor::Unknown).await.unwrap()
    }

    /// Takes the only lane and its next page.
    async fn claim(&self, reader: &Reader, holder: &Holder) -> Batch {
        let lane = self.store.claim_lane(reader, holder).await.unwrap().unwrap();
        batch(self.fresh(reader, lane.lane, Some(lane.token), holder).await)
    }

    async fn due(&self, reader: &Reader, holder: &Holder) -> Vec<DeliveryClaim> {
        self.store.claim_deliveries(reader, holder, 100, true).await.unwrap()
    }

    /// Waits until something is due, then claims it.
    async fn next_due(&self, reader: &Reader, holder: &Holder) -> Vec<DeliveryClaim> {
        for _ in 0..2_000 {
            let claims = self.due(reader, holder).await;
            if !claims.is_empty() {
                return claims;
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        panic!("nothing fell due");
    }

    async fn settle(&self, reader: &Reader, claim: &DeliveryClaim, settlement: Settlement) -> Vec<i64> {
        let (seq, token, key) = (claim.event.seq, claim.token, claim.key.clone());
        let settlement = DeliverySettlement { seq, token, key, settlement, steps: claim.steps };
        self.store.settle_deliveries(reader, &[settlement]).await.unwrap()
    }

    /// One column of one delivery, as text.
    async fn delivery(&self, seq: i64, column: &str) -> String {
        let sql = format!("select cast({column} as text) from posthaste_deliveries where seq = ?1");
        let value: Option<String> =
            sqlx::query_scalar(sqlx::AssertSqlSafe(sql)).bind(seq).fetch_one(&self.store.pool).await.unwrap();
        value.unwrap_or_default()
    }

    /// seq and status of every event, as people see them.
    async fn statuses(&self, subscription: &str) -> Vec<String> {
        let sql = "select status from posthaste_event_status where subscription = ?1 order by seq";
        sqlx::query_scalar(sql).bind(subscription).fetch_all(&self.store.pool).await.unwrap()
    }

    async fn count(&self, table: &'static str) -> i64 {
        let sql = format!("select count(*) from posthaste_{table}");
        sqlx::query_scalar(sqlx::AssertSqlSafe(sql)).fetch_one(&self.store.pool).await.unwrap()
    }
}

async fn open(dir: &TempDir) -> SqliteStore {
    let options = sqlite_options(dir.path().join("log.db"));
    SqliteStore::new(SqlitePoolOptions::new().max_connections(4).connect_with(options).await.unwrap())
}

fn event() -> NewEvent {
    NewEvent::bytes("orders", b"{}".to_vec())
}

fn subscription() -> Subscription {
    Subscription::new("billing").unwrap()
}

fn holder(name: &str, lease: Duration) -> Holder {
    Holder { worker: WorkerName::parse(name).unwrap(), lease }
}

fn batch(fresh: Fresh) -> Batch {
    match fresh {
        Fresh::Batch(batch) => batch,
        other => panic!("expected a batch, got {other:?}"),
    }
}

fn reference(batch: &Batch) -> BatchRef {
    BatchRef::to(batch)
}

fn seqs(events: &[ClaimedEvent]) -> Vec<i64> {
    events.iter().map(|claimed| claimed.event.seq).collect()
}

fn claimed_seqs(claims: &[DeliveryClaim]) -> Vec<i64> {
    claims.iter().map(|claim| claim.event.seq).collect()
}

/// A trouble with the event at this place of the batch.
fn trouble(batch: &Batch, index: usize, settlement: Settlement) -> Trouble {
    let event = &batch.events[index].event;
    Trouble {
        seq: event.seq,
        event_id: event.id,
        key: event.key.clone().filter(|_| event.available_at.is_none()),
        settlement,
        attempts: 1,
        steps: 0,
        solo: false,
    }
}

fn retry(delay: Duration) -> Settlement {
    Settlement::Retry { delay, error: "no".into() }
}

/// Waits until the leases of this length have run out on the database's clock.
async fn outlast(lease: Duration) {
    tokio::time::sleep(lease + Duration::from_millis(5)).await;
}
