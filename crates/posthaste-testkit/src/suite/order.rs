//! Order: by key, none, strict; and what a slow or failing event may hold up.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use posthaste::admin::EventStatus;
use posthaste::{ClaimBy, Event, NewEvent, Order, Outcome, Start};
use tokio::sync::Semaphore;

use super::{Backend, Script, assert_key, event, numbered, of_key, quick, until};
use crate::ledger::Ledger;

/// Every third event fails once or twice; each key is still delivered in order, nothing twice.
pub async fn key_order_holds_through_failures(db: &impl Backend) {
    for claim_by in [ClaimBy::Batch, ClaimBy::Event] {
        let script = Script::new(|event, attempt| match event.seq % 3 {
            0 if attempt <= 1 + u32::from(event.seq % 2 == 0) => Outcome::retry("not yet"),
            _ => Outcome::Delivered,
        });
        let subscription =
            quick(claim_by.as_str()).claim_by(claim_by).start(Start::Now).settings(|s| s.batch_size = 7);
        let worker = db.posthaste().handler(subscription, script.clone()).start().await.expect("start");
        for n in 0..20 {
            let round = ["a", "b", "c", "d"].map(|key| event(key, &format!("{key}-{n:05}")));
            db.commit(round.into()).await;
        }
        script.accepted.wait_for(80).await;
        worker.stop().await;
        for key in ["a", "b", "c", "d"] {
            assert_key(&script.accepted, key, 20);
        }
        assert_eq!(db.deliveries(claim_by.as_str()).await, []);
    }
}

/// Pages that were read before a key was parked are delivered as if they had been read afterwards.
pub async fn a_backlog_keeps_the_order_of_keys_that_fail(db: &impl Backend) {
    const KEYS: [&str; 7] = ["a", "b", "c", "d", "e", "f", "g"];
    let backlog = (0..60).flat_map(|n| KEYS.map(|key| event(key, &format!("{key}-{n:05}")))).collect();
    db.commit(backlog).await;
    for claim_by in [ClaimBy::Batch, ClaimBy::Event] {
        let script = Script::new(|event, attempt| match event.seq % 5 {
            0 if attempt == 1 => Outcome::retry("not yet"),
            _ => Outcome::Delivered,
        });
        let subscription = quick(claim_by.as_str()).claim_by(claim_by).start(Start::Beginning);
        let subscription = subscription.settings(|s| s.batch_size = 10);
        let worker = db.posthaste().handler(subscription, script.clone()).start().await.expect("start");
        script.accepted.wait_for(60 * KEYS.len()).await;
        worker.stop().await;
        KEYS.iter().for_each(|key| assert_key(&script.accepted, key, 60));
        assert_eq!(db.deliveries(claim_by.as_str()).await, []);
    }
}

/// Even events of the same key pass one that fails.
pub async fn without_order_a_failing_event_holds_nobody(db: &impl Backend) {
    let open = Arc::new(AtomicBool::new(false));
    let gate = open.clone();
    let script = Script::new(move |event, _| match event.text() {
        Some("k-00000") if !gate.load(Ordering::SeqCst) => Outcome::retry("not yet"),
        _ => Outcome::Delivered,
    });
    let subscription = quick("s").order(Order::None).settings(|s| s.max_attempts = 1000);
    let worker = db.posthaste().handler(subscription, script.clone()).start().await.expect("start");
    db.commit(numbered("k", 30)).await;
    script.accepted.wait_for(29).await;
    open.store(true, Ordering::SeqCst);
    script.accepted.wait_for(30).await;
    worker.stop().await;
    assert_eq!(script.accepted.texts().last().map(String::as_str), Some("k-00000"));
}

/// Nothing starts while the head fails, whatever its key.
pub async fn strict_order_holds_everything_behind_a_failing_event(db: &impl Backend) {
    let script = Script::new(|event, attempt| match event.text() {
        Some("b") if attempt < 4 => Outcome::retry("not yet"),
        _ => Outcome::Delivered,
    });
    let worker =
        db.posthaste().handler(quick("s").order(Order::Strict), script.clone()).start().await.expect("start");
    db.commit(["a", "b", "c", "d"].map(|body| event(body, body)).into()).await;
    script.accepted.wait_for(4).await;
    worker.stop().await;
    assert_eq!(script.attempts.texts(), ["a", "b", "b", "b", "b", "c", "d"]);
}

/// A stop in the middle of a backoff, a redeploy say, shortens nothing and forgets nothing: neither by the worker whose
/// attempt failed nor by those that took the wait over from it.
pub async fn a_stop_while_strict_order_backs_off_keeps_the_time_and_the_error(db: &impl Backend) {
    let ids = db.commit(numbered("k", 2)).await;
    let script = Script::new(|_, _| Outcome::retry_after(Duration::from_secs(3600), "not now"));
    let subscription = quick("s").order(Order::Strict);
    let admin = db.posthaste().admin();
    let state = async || admin.event(ids[0].id).await.expect("the event").states.remove(0);
    let lanes = async || admin.subscription("s").await.expect("the subscription").lanes;
    let mut due = None;
    for _ in 0..4 {
        let worker =
            db.posthaste().handler(subscription.clone(), script.clone()).start().await.expect("start");
        until("it backs off", async || {
            let state = state().await;
            let held = lanes().await.iter().any(|lane| lane.held_by.is_some());
            held && state.status == EventStatus::Pending && state.attempts == 1
        })
        .await;
        let due = *due.get_or_insert(state().await.next_attempt_at);
        worker.stop().await;
        let after = state().await;
        assert_eq!(after.last_error.as_deref(), Some("not now"));
        assert_eq!((after.status, after.attempts), (EventStatus::Pending, 1));
        assert_eq!(after.next_attempt_at, due);
        assert_eq!(script.attempts.len(), 1);
    }
}

/// The next owner of a batch that is done in part goes on from there, with the attempts that the first of the rest has behind
/// it.
pub async fn strict_order_goes_on_where_another_worker_stopped(db: &impl Backend) {
    let ids = db.commit(["a", "b", "c", "d"].map(|body| event(body, body)).into()).await;
    let script = Script::new(|event, attempt| match (event.text(), attempt) {
        (Some("b"), 1) => Outcome::retry_after(Duration::from_secs(3), "not now"),
        (Some("b"), _) => Outcome::retry("broken"),
        _ => Outcome::Delivered,
    });
    let subscription = quick("s").order(Order::Strict).settings(|s| s.max_attempts = 3);
    let start =
        async || db.posthaste().handler(subscription.clone(), script.clone()).start().await.expect("start");
    let (first, admin) = (start().await, db.posthaste().admin());
    until("it is tried once", async || {
        admin.event(ids[1].id).await.expect("the event").states[0].attempts > 0
    })
    .await;
    first.stop().await;
    assert!(script.attempts.len() < 4, "the first one leaves something to do");
    let second = start().await;
    script.accepted.wait_for(3).await;
    second.stop().await;
    assert_eq!(script.attempts.texts(), ["a", "b", "b", "b", "c", "d"]);
}

/// The limit ends the wait: dead, with its reason, and on.
pub async fn strict_order_goes_on_after_a_dead_letter(db: &impl Backend) {
    let script = Script::new(|event, _| match event.text() {
        Some("b") => Outcome::retry("broken"),
        Some("d") => Outcome::dead("rejected"),
        _ => Outcome::Delivered,
    });
    let subscription = quick("s").order(Order::Strict).settings(|s| s.max_attempts = 3);
    let worker = db.posthaste().handler(subscription, script.clone()).start().await.expect("start");
    db.commit(["a", "b", "c", "d", "e"].map(|body| event(body, body)).into()).await;
    script.accepted.wait_for(3).await;
    worker.stop().await;
    assert_eq!(script.attempts.texts(), ["a", "b", "b", "b", "c", "d", "e"]);
    let dead = db.deliveries("s").await;
    assert!(dead.iter().all(|delivery| delivery.status == "dead"));
    assert_eq!(dead.iter().map(|delivery| delivery.attempts).collect::<Vec<_>>(), [3, 1]);
    assert!(dead[0].last_error.as_deref().is_some_and(|error| error.contains("broken")));
}

/// Thousands of other events pass a key that hangs; then it goes on in order. What waits is kept in the database.
pub async fn a_slow_key_stops_no_other_key_and_is_not_kept_in_memory(db: &impl Backend) {
    const OTHERS: usize = 1500;
    for claim_by in [ClaimBy::Batch, ClaimBy::Event] {
        let (ledger, gate, started) =
            (Ledger::default(), Arc::new(Semaphore::new(0)), Arc::new(AtomicUsize::new(0)));
        let handler = {
            let (ledger, gate, started) = (ledger.clone(), gate.clone(), started.clone());
            move |event: Arc<Event>| {
                let (ledger, gate, started) = (ledger.clone(), gate.clone(), started.clone());
                async move {
                    if event.key.as_deref() == Some("slow") {
                        started.fetch_add(1, Ordering::SeqCst);
                        gate.acquire().await.expect("open").forget();
                    }
                    ledger.accept(&event);
                }
            }
        };
        let subscription = quick(claim_by.as_str()).claim_by(claim_by).start(Start::Now).settings(|s| {
            s.batch_size = 100;
            s.concurrency = 4;
        });
        let worker = db.posthaste().handler(subscription, handler).start().await.expect("start");
        let mut events: Vec<NewEvent> = numbered("slow", 60);
        let others = (0..OTHERS).map(|n| {
            let (key, place) = (n % 5, n / 5);
            event(&format!("o{key}"), &format!("o{key}-{place:05}"))
        });
        events.extend(others);
        // The slow ones lie among the others, a few in every page.
        events.sort_by_key(|_| 0);
        let mut mixed = Vec::new();
        let rest = events.split_off(60);
        let mut slow = events.into_iter();
        for (n, other) in rest.into_iter().enumerate() {
            if n % 25 == 0 {
                mixed.extend(slow.next());
            }
            mixed.push(other);
        }
        db.commit(mixed).await;
        ledger.wait_for(OTHERS).await;
        assert_eq!(started.load(Ordering::SeqCst), 1, "one event of the slow key is under way");
        until("all that wait behind it are in the database", async || {
            db.deliveries(claim_by.as_str()).await.len() == 60
        })
        .await;
        assert!(of_key(&ledger, "slow").is_empty());
        gate.add_permits(60);
        ledger.wait_for(OTHERS + 60).await;
        worker.stop().await;
        assert_key(&ledger, "slow", 60);
        for key in 0..5 {
            assert_key(&ledger, &format!("o{key}"), OTHERS / 5);
        }
        assert_eq!(db.deliveries(claim_by.as_str()).await, []);
    }
}
