//! The ready-made worker on PostgreSQL: what happens to an event from commit to settlement.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use posthaste::{ClaimBy, Event, NewEvent, Order, Outcome, Start, Subscription};
use posthaste_testkit::{Ledger, TestDatabase};

fn event(key: &str, body: &str) -> NewEvent {
    NewEvent::bytes("orders", body.as_bytes().to_vec()).key(key)
}

fn quick(name: &str) -> Subscription {
    Subscription::new(name).unwrap().settings(|s| {
        s.base_delay = Duration::from_millis(20);
        s.max_delay = Duration::from_millis(100);
        s.poll_interval = Duration::from_millis(500);
    })
}

fn logs() {
    tracing_subscriber::fmt().with_test_writer().try_init().ok();
}

async fn enqueue(db: &TestDatabase, events: Vec<NewEvent>) {
    let mut tx = db.pool.begin().await.unwrap();
    db.posthaste.enqueue_many(&mut tx, events).await.unwrap();
    tx.commit().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn committed_events_are_delivered_in_order_and_rolled_back_ones_never() {
    for order in [Order::Key, Order::None, Order::Strict] {
        logs();
        let db = TestDatabase::new().await;
        let ledger = Ledger::default();
        let accept = ledger.clone();
        let handler = move |event: Arc<Event>| {
            accept.accept(&event);
            async {}
        };
        let worker = db.posthaste.handler(quick("s").order(order), handler).start().await.unwrap();
        let mut tx = db.pool.begin().await.unwrap();
        db.posthaste.enqueue(&mut tx, event("k", "ghost")).await.unwrap();
        tx.rollback().await.unwrap();
        for n in 0..10 {
            enqueue(&db, (0..50).map(|i| event("k", &format!("{:04}", n * 50 + i))).collect()).await;
        }
        ledger.wait_for(500).await;
        worker.stop().await;
        let texts = ledger.texts();
        assert_eq!(texts.len(), 500, "{order:?}");
        if order != Order::None {
            assert!(texts.is_sorted(), "{order:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failing_event_is_retried_and_only_its_key_waits() {
    for claim_by in [ClaimBy::Batch, ClaimBy::Event] {
        logs();
        let db = TestDatabase::new().await;
        let ledger = Ledger::default();
        let accept = ledger.clone();
        let tries = Arc::new(AtomicU32::new(0));
        let handler = move |event: Arc<Event>| {
            let failing = event.text() == Some("a1") && tries.fetch_add(1, Ordering::SeqCst) < 3;
            if !failing {
                accept.accept(&event);
            }
            async move { if failing { Outcome::retry("not yet") } else { Outcome::Delivered } }
        };
        let worker = db.posthaste.handler(quick("s").claim_by(claim_by), handler).start().await.unwrap();
        let events = [("a", "a1"), ("a", "a2"), ("b", "b1"), ("a", "a3"), ("b", "b2")];
        enqueue(&db, events.iter().map(|(k, b)| event(k, b)).collect()).await;
        ledger.wait_for(5).await;
        let texts = ledger.texts();
        let of = |prefix: &str| texts.iter().filter(|t| t.starts_with(prefix)).cloned().collect::<Vec<_>>();
        assert_eq!(of("a"), ["a1", "a2", "a3"]);
        assert_eq!(of("b"), ["b1", "b2"]);
        assert_eq!(texts[..2], ["b1", "b2"], "the other key did not wait");
        assert_eq!(worker.counters().retried(), 3);
        worker.stop().await;
    }
}

/// Nobody tells the worker of its time: the producer is another process, and nothing is settled before.
#[tokio::test(flavor = "multi_thread")]
async fn a_transactional_handler_gets_a_delayed_event_when_it_is_due_not_at_the_next_poll() {
    let (db, ledger) = (TestDatabase::new().await, Ledger::default());
    let accept = ledger.clone();
    let subscription = quick("s").start(Start::Now).settings(|s| s.poll_interval = Duration::from_secs(600));
    let worker = db.another().await.transactional(subscription, move |_, event| {
        accept.accept(&event);
        Box::pin(async {})
    });
    let worker = worker.unwrap().start().await.unwrap();
    enqueue(&db, vec![event("k", "later").delay(Duration::from_millis(300))]).await;
    let arrival = tokio::time::timeout(Duration::from_secs(60), ledger.wait_for(1));
    arrival.await.expect("it does not wait for ten minutes");
    worker.stop().await;
}

/// How many batches that a rest followed were settled before it can have been over: it is 20 ms and more.
async fn settled_before_a_rest_was_over(claim_by: ClaimBy) -> (i64, i64) {
    let (db, ledger) = (TestDatabase::new().await, Ledger::default());
    let accept = ledger.clone();
    let handler = move |event: Arc<Event>| {
        accept.accept(&event);
        async {}
    };
    let subscription = quick("s").claim_by(claim_by).start(Start::Now).settings(|s| s.batch_size = 500);
    let worker = db.posthaste.handler(subscription, handler).start().await.unwrap();
    for n in 0..60 {
        enqueue(&db, (0..40).map(|i| event(&format!("{n}-{i}"), "")).collect()).await;
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    ledger.wait_for(2400).await;
    worker.stop().await;
    let counts = "select count(*) filter (where finished_at < inserted_at + interval '20 ms'), count(*) \
        from posthaste.batches where count >= 40 and number > 1";
    sqlx::query_as(counts).fetch_one(&db.pool).await.unwrap()
}

/// Claimed by event, a crash repeats what was running, not what was handled before a rest. A batch may wait for its end.
#[tokio::test(flavor = "multi_thread")]
async fn what_was_handled_by_event_is_settled_during_a_rest() {
    let (soon, all) = settled_before_a_rest_was_over(ClaimBy::Event).await;
    assert!(soon * 3 > all, "{soon} of {all}");
    let (soon, all) = settled_before_a_rest_was_over(ClaimBy::Batch).await;
    assert!(soon * 3 < all, "a control: {soon} of {all}");
}
