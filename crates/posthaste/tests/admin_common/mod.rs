//! What the admin tests share. A scenario is generic over the database; `on_every_database!` makes it a test on each.

use std::sync::Arc;
use std::time::Duration;

use posthaste::admin::{EventState, EventStatus};
use posthaste::{Admin, Claims, Event, EventId, NewEvent, Outcome, Subscription, Worker};
use posthaste_testkit::suite::Backend;
use posthaste_testkit::{Ledger, SqliteDatabase, TestDatabase, servers};
use sqlx::AssertSqlSafe;

/// A database to run scenarios on, and what they ask it beside Posthaste.
pub(crate) trait Database: Backend + Sized {
    /// A new one, with Posthaste's tables.
    async fn fresh() -> Self;
    /// One on every server there is.
    async fn everywhere() -> Vec<Self>;
    /// One number. Tables are named as on PostgreSQL: `posthaste.events`.
    async fn scalar(&self, sql: &str) -> i64;
    /// Changes rows.
    async fn run(&self, sql: &str);
}

impl Database for TestDatabase {
    async fn fresh() -> Self {
        Self::new().await
    }

    async fn everywhere() -> Vec<Self> {
        let mut databases = Vec::new();
        for server in servers() {
            databases.push(Self::on(&server).await);
        }
        databases
    }

    async fn scalar(&self, sql: &str) -> i64 {
        sqlx::query_scalar(AssertSqlSafe(sql.to_owned())).fetch_one(&self.pool).await.unwrap()
    }

    async fn run(&self, sql: &str) {
        sqlx::query(AssertSqlSafe(sql.to_owned())).execute(&self.pool).await.unwrap();
    }
}

impl Database for SqliteDatabase {
    async fn fresh() -> Self {
        Self::new().await
    }

    async fn everywhere() -> Vec<Self> {
        vec![Self::new().await]
    }

    async fn scalar(&self, sql: &str) -> i64 {
        sqlx::query_scalar(in_sqlite(sql)).fetch_one(&self.pool).await.unwrap()
    }

    async fn run(&self, sql: &str) {
        sqlx::query(in_sqlite(sql)).execute(&self.pool).await.unwrap();
    }
}

fn in_sqlite(sql: &str) -> AssertSqlSafe<String> {
    AssertSqlSafe(sql.replace("posthaste.", "posthaste_"))
}

/// One test of each scenario per kind of database.
macro_rules! on_every_database {
    ($($scenario:ident),+ $(,)?) => {
        mod postgres {
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $scenario() {
                Box::pin(super::$scenario::<posthaste_testkit::TestDatabase>()).await;
            })+
        }

        mod sqlite {
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $scenario() {
                Box::pin(super::$scenario::<posthaste_testkit::SqliteDatabase>()).await;
            })+
        }
    };
}

pub(crate) fn event(key: &str, body: &str) -> NewEvent {
    NewEvent::bytes("orders", body.as_bytes().to_vec()).key(key)
}

pub(crate) fn quick(name: &str) -> Subscription {
    Subscription::new(name).unwrap().settings(|s| {
        s.base_delay = Duration::from_millis(20);
        s.max_delay = Duration::from_millis(100);
        s.poll_interval = Duration::from_millis(200);
    })
}

pub(crate) async fn enqueue(db: &impl Backend, events: Vec<NewEvent>) -> Vec<EventId> {
    db.commit(events).await.into_iter().map(|enqueued| enqueued.id).collect()
}

/// `1` to `n` of a key, in one transaction each.
pub(crate) async fn enqueue_numbered(
    db: &impl Backend,
    key: &str,
    numbers: std::ops::RangeInclusive<u32>,
) -> Vec<EventId> {
    let mut ids = Vec::new();
    for number in numbers {
        ids.extend(enqueue(db, vec![event(key, &format!("{key}{number:03}"))]).await);
    }
    ids
}

/// A worker that accepts everything.
pub(crate) async fn accepting(db: &impl Backend, subscription: Subscription, ledger: &Ledger) -> Worker {
    let accept = ledger.clone();
    let handler = move |event: Arc<Event>| {
        accept.accept(&event);
        async {}
    };
    db.posthaste().handler(subscription, handler).start().await.unwrap()
}

/// A worker for which events whose body contains `bad` are dead at once.
pub(crate) async fn rejecting(db: &impl Backend, subscription: Subscription, ledger: &Ledger) -> Worker {
    let accept = ledger.clone();
    let handler = move |event: Arc<Event>| {
        let bad = event.text().is_some_and(|text| text.contains("bad"));
        if !bad {
            accept.accept(&event);
        }
        async move { if bad { Outcome::dead("bad body") } else { Outcome::Delivered } }
    };
    db.posthaste().handler(subscription, handler).start().await.unwrap()
}

/// Claims by hand until nothing comes, settling by the body: `bad` is dead, `later` is retried, the rest is delivered.
/// One by one, because events of one key may come together in a page.
pub(crate) async fn drain(claims: &mut Claims) -> Vec<String> {
    let mut delivered = Vec::new();
    loop {
        let page = claims.claim(1).await.unwrap();
        if page.is_empty() {
            return delivered;
        }
        for claimed in page {
            let text = claimed.event().text().unwrap().to_owned();
            let outcome = match &text {
                text if text.contains("bad") => Outcome::dead("bad body"),
                text if text.contains("later") => Outcome::retry_after(Duration::from_secs(3600), "not yet"),
                _ => Outcome::Delivered,
            };
            if outcome == Outcome::Delivered {
                delivered.push(text);
            }
            claims.settle(claimed, outcome).await.unwrap();
        }
    }
}

pub(crate) async fn state(admin: &Admin, id: EventId, subscription: &str) -> Option<EventState> {
    let detail = admin.event(id).await.unwrap();
    detail.states.into_iter().find(|state| state.subscription == subscription)
}

pub(crate) async fn status(admin: &Admin, id: EventId, subscription: &str) -> Option<EventStatus> {
    state(admin, id, subscription).await.map(|state| state.status)
}

/// Waits for a fact.
pub(crate) async fn until(what: &str, mut fact: impl AsyncFnMut() -> bool) {
    for _ in 0..2_000 {
        if fact().await {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("{what}: not within 20 s");
}
