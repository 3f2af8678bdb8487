//! What the admin tests share.

use std::sync::Arc;
use std::time::Duration;

use posthaste::admin::{EventState, EventStatus};
use posthaste::{Admin, Claims, Enqueued, Event, EventId, NewEvent, Outcome, Subscription, Worker};
use posthaste_testkit::{Ledger, TestDatabase};

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

pub(crate) async fn enqueue(db: &TestDatabase, events: Vec<NewEvent>) -> Vec<EventId> {
    let mut tx = db.pool.begin().await.unwrap();
    let enqueued: Vec<Enqueued> = db.posthaste.enqueue_many(&mut tx, events).await.unwrap();
    tx.commit().await.unwrap();
    enqueued.into_iter().map(|enqueued| enqueued.id).collect()
}

/// `1` to `n` of a key, in one transaction each.
pub(crate) async fn enqueue_numbered(
    db: &TestDatabase,
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
pub(crate) async fn accepting(db: &TestDatabase, subscription: Subscription, ledger: &Ledger) -> Worker {
    let accept = ledger.clone();
    let handler = move |event: Arc<Event>| {
        accept.accept(&event);
        async {}
    };
    db.posthaste.handler(subscription, handler).start().await.unwrap()
}

/// A worker for which events whose body contains `bad` are dead at once.
pub(crate) async fn rejecting(db: &TestDatabase, subscription: Subscription, ledger: &Ledger) -> Worker {
    let accept = ledger.clone();
    let handler = move |event: Arc<Event>| {
        let bad = event.text().is_some_and(|text| text.contains("bad"));
        if !bad {
            accept.accept(&event);
        }
        async move { if bad { Outcome::dead("bad body") } else { Outcome::Delivered } }
    };
    db.posthaste.handler(subscription, handler).start().await.unwrap()
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

pub(crate) async fn scalar(db: &TestDatabase, sql: &'static str) -> i64 {
    sqlx::query_scalar(sql).fetch_one(&db.pool).await.unwrap()
}

pub(crate) async fn run(db: &TestDatabase, sql: &'static str) -> u64 {
    sqlx::query(sql).execute(&db.pool).await.unwrap().rows_affected()
}
