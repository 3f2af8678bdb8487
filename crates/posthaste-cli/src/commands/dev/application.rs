//! The sample application: a shop that writes each order and its event in one transaction.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use posthaste::{NewEvent, Posthaste};
use serde_json::json;
use sqlx::{SqliteConnection, SqlitePool};
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;

use crate::failure::Failure;

/// The topic of all its events.
pub(crate) const TOPIC: &str = "orders";

/// The order of this run, counted from one, that `analytics` cannot digest.
const POISON: u64 = 13;

/// Every so many visits the customer leaves at the last moment, and the transaction is rolled back.
const CHANGES_MIND_EVERY: u64 = 10;

const CUSTOMERS: [&str; 12] =
    ["ada", "ben", "cleo", "dov", "eva", "finn", "gita", "hugo", "ines", "jun", "kira", "leo"];

/// The shop. Clones share their counts.
#[derive(Debug, Clone)]
pub(crate) struct Application {
    pool: SqlitePool,
    posthaste: Posthaste,
    /// How many orders were in the file before.
    before: u64,
    written: Arc<AtomicU64>,
    rolled_back: Arc<AtomicU64>,
}

/// One customer at the till.
struct Visit {
    customer: &'static str,
    cents: i64,
    channel: &'static str,
    changes_mind: bool,
}

impl Application {
    /// Creates its one table, or refuses a file whose `orders` are somebody else's.
    pub(crate) async fn prepare(pool: SqlitePool, posthaste: Posthaste) -> Result<Self, Failure> {
        let create = "create table if not exists orders (
            number integer primary key, customer text not null, cents integer not null, channel text not null) strict";
        sqlx::query(create)
            .execute(&pool)
            .await
            .map_err(Failure::while_doing("create the table `orders`"))?;
        let before: i64 = sqlx::query_scalar(
            "select count(*) from (select number, customer, cents, channel from orders)",
        )
        .fetch_one(&pool)
        .await
        .map_err(|_| {
            Failure::sentence(
                "this database has a table `orders` that is not the sample's; choose another --database",
            )
        })?;
        Ok(Self {
            pool,
            posthaste,
            before: before.unsigned_abs(),
            written: Arc::default(),
            rolled_back: Arc::default(),
        })
    }

    pub(crate) fn before(&self) -> u64 {
        self.before
    }

    pub(crate) fn written(&self) -> u64 {
        self.written.load(Ordering::Relaxed)
    }

    pub(crate) fn rolled_back(&self) -> u64 {
        self.rolled_back.load(Ordering::Relaxed)
    }

    /// Serves customers until stopped, never faster than `rate` a second.
    pub(crate) async fn run(self, rate: u32, stop: CancellationToken) -> Result<(), Failure> {
        let mut tick = tokio::time::interval(Duration::from_secs(1) / rate);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                _ = tick.tick() => self.serve(&self.next_visit()).await?,
                () = stop.cancelled() => return Ok(()),
            }
        }
    }

    /// The heart of it: the order and its event commit together, or neither exists.
    async fn serve(&self, visit: &Visit) -> Result<(), Failure> {
        let failed = Failure::while_doing("write an order");
        let mut tx = self.pool.begin().await.map_err(Failure::while_doing("begin a transaction"))?;
        let number = insert_order(&mut tx, visit).await.map_err(failed)?;
        let event = order_created(number, visit)?;
        self.posthaste.enqueue(&mut tx, event).await.map_err(Failure::while_doing("enqueue an event"))?;
        if visit.changes_mind {
            tx.rollback().await.map_err(Failure::while_doing("roll back"))?;
            self.rolled_back.fetch_add(1, Ordering::Relaxed);
            return Ok(());
        }
        tx.commit().await.map_err(Failure::while_doing("commit"))?;
        self.written.fetch_add(1, Ordering::Relaxed);
        self.posthaste.wake();
        Ok(())
    }

    fn next_visit(&self) -> Visit {
        let visits = self.written() + self.rolled_back() + 1;
        let poison = self.written() + 1 == POISON;
        let channel = ["web", "phone", "shop"][fastrand::usize(..3)];
        Visit {
            customer: CUSTOMERS[fastrand::usize(..CUSTOMERS.len())],
            cents: fastrand::i64(500..20_000),
            channel: if poison { "carrier pigeon" } else { channel },
            changes_mind: visits.is_multiple_of(CHANGES_MIND_EVERY),
        }
    }
}

async fn insert_order(connection: &mut SqliteConnection, visit: &Visit) -> sqlx::Result<i64> {
    sqlx::query_scalar("insert into orders (customer, cents, channel) values (?1, ?2, ?3) returning number")
        .bind(visit.customer)
        .bind(visit.cents)
        .bind(visit.channel)
        .fetch_one(connection)
        .await
}

/// The key is the customer: nobody sees the second order of a customer before the first.
fn order_created(number: i64, visit: &Visit) -> Result<NewEvent, Failure> {
    let order = json!({
        "number": number, "customer": visit.customer, "cents": visit.cents, "channel": visit.channel,
    });
    let event = NewEvent::json(TOPIC, &order).map_err(Failure::while_doing("write an event"))?;
    Ok(event.event_type("order.created").aggregate("order", number.to_string()).key(visit.customer))
}
