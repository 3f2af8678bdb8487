//! Failures: retries, dead letters, panics, timeouts, and receivers that are away.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use posthaste::{AfterDead, ClaimBy, Event, Order, Outcome, Start};

use tokio::sync::Semaphore;

use super::{Backend, Script, assert_key, claim_some, event, numbered, quick, until};
use crate::ledger::Ledger;

/// Attempts, the last error and a later time, each time.
pub async fn a_failure_is_recorded_and_the_next_attempt_is_later_each_time(db: &impl Backend) {
    db.commit(vec![event("k", "x")]).await;
    let mut claims = db.posthaste().claims(&quick("s")).await.expect("claims");
    let mut last = None;
    for attempt in 1..=4 {
        let claimed = claim_some(&mut claims, 10).await.remove(0);
        assert_eq!(claimed.attempts(), attempt);
        claims.settle(claimed, Outcome::retry(format!("error {attempt}"))).await.expect("settle");
        let row = db.deliveries("s").await.remove(0);
        assert_eq!((row.status.as_str(), row.attempts, row.locked_by), ("pending", attempt, None));
        assert_eq!(row.last_error, Some(format!("error {attempt}")));
        assert!(last < Some(row.next_attempt_at), "attempt {attempt}");
        last = Some(row.next_attempt_at);
    }
}

/// `skip`: the dead letter is kept with its reason, and later events of its key follow.
pub async fn an_event_is_dead_after_its_last_attempt_and_its_key_goes_on(db: &impl Backend) {
    for (order, claim_by) in
        [(Order::Key, ClaimBy::Batch), (Order::Key, ClaimBy::Event), (Order::None, ClaimBy::Batch)]
    {
        let name = format!("{}-{}", order.as_str(), claim_by.as_str());
        let script = Script::new(|event, _| match event.text() {
            Some("k-00001") => Outcome::retry("broken"),
            _ => Outcome::Delivered,
        });
        let subscription =
            quick(&name).order(order).claim_by(claim_by).start(Start::Now).settings(|s| s.max_attempts = 3);
        let worker = db.posthaste().handler(subscription, script.clone()).start().await.expect("start");
        let ids = db.commit(numbered("k", 4)).await;
        script.accepted.wait_for(3).await;
        until("it is dead", async || db.deliveries(&name).await.iter().any(|row| row.status == "dead")).await;
        worker.stop().await;
        let rows = db.deliveries(&name).await;
        assert_eq!((rows.len(), rows[0].id, rows[0].attempts), (1, ids[1].id, 3), "{name}");
        assert!(rows[0].last_error.as_deref().is_some_and(|error| error.contains("broken")));
        let attempts = script.attempts.texts().iter().filter(|text| *text == "k-00001").count();
        assert_eq!(attempts, 3, "{name}");
        if order == Order::Key {
            assert_eq!(script.accepted.texts(), ["k-00000", "k-00002", "k-00003"], "{name}");
        }
    }
}

/// `block`: later events of its key wait for a person, other keys do not.
pub async fn a_dead_letter_holds_its_key_if_the_policy_says_block(db: &impl Backend) {
    for claim_by in [ClaimBy::Batch, ClaimBy::Event] {
        let name = claim_by.as_str();
        let script = Script::new(|event, _| match event.text() {
            Some("k-00001") => Outcome::dead("rejected"),
            _ => Outcome::Delivered,
        });
        let subscription = quick(name).claim_by(claim_by).after_dead(AfterDead::Block).start(Start::Now);
        let worker =
            db.posthaste().handler(subscription.clone(), script.clone()).start().await.expect("start");
        db.commit(numbered("k", 4)).await;
        db.commit(numbered("other", 3)).await;
        script.accepted.wait_for(4).await;
        until("the rest waits", async || db.deliveries(name).await.len() == 3).await;
        worker.stop().await;
        // Also for those who come later, and after a restart.
        let worker = db.posthaste().handler(subscription, script.clone()).start().await.expect("start");
        db.commit(vec![event("k", "late"), event("other", "end")]).await;
        script.accepted.wait_for(5).await;
        until("the late one waits too", async || db.deliveries(name).await.len() == 4).await;
        worker.stop().await;
        let rows = db.deliveries(name).await;
        assert_eq!(
            rows.iter().map(|row| row.status.as_str()).collect::<Vec<_>>(),
            ["dead", "pending", "pending", "pending"]
        );
        assert!(rows[1..].iter().all(|row| row.parked && row.attempts == 0), "{rows:?}");
        let mut texts = script.accepted.texts();
        texts.sort();
        assert_eq!(texts, ["end", "k-00000", "other-00000", "other-00001", "other-00002"]);
    }
}

/// A dead letter that held its key lets it go on as soon as the policy says so.
pub async fn a_key_goes_on_when_the_policy_changes_to_skip(db: &impl Backend) {
    let script = Script::new(|event, _| match event.text() {
        Some("k-00000") => Outcome::dead("rejected"),
        _ => Outcome::Delivered,
    });
    let start = async |policy: AfterDead| {
        let subscription = quick("policy").after_dead(policy);
        db.posthaste().handler(subscription, script.clone()).start().await.expect("start")
    };
    let worker = start(AfterDead::Block).await;
    db.commit(numbered("k", 3)).await;
    until("the key waits", async || db.deliveries("policy").await.len() == 3).await;
    worker.stop().await;
    assert!(script.accepted.is_empty());
    let worker = start(AfterDead::Skip).await;
    script.accepted.wait_for(2).await;
    worker.stop().await;
    assert_eq!(script.accepted.texts(), ["k-00001", "k-00002"]);
}

/// While a deployment rolls, a worker that still knows the order of keys may park events after it was given up.
pub async fn nothing_stays_parked_when_the_order_of_keys_is_given_up(db: &impl Backend) {
    let script = Script::new(|event, _| match event.text() {
        Some("k-00000") => Outcome::retry_after(Duration::from_secs(3600), "much later"),
        _ => Outcome::Delivered,
    });
    let worker = db.posthaste().handler(quick("order"), script.clone()).start().await.expect("start");
    db.commit(numbered("k", 3)).await;
    until("two wait behind the first", async || db.deliveries("order").await.len() == 3).await;
    worker.stop().await;
    let mut claims = db.posthaste().claims(&quick("order").order(Order::None)).await.expect("claims");
    db.park_all("order").await;
    let mut claimed: Vec<_> = claim_some(&mut claims, 10).await;
    let mut texts: Vec<_> = claimed.iter().filter_map(|c| c.event().text().map(str::to_owned)).collect();
    texts.sort();
    assert_eq!(texts, ["k-00000", "k-00001", "k-00002"]);
    while let Some(claimed) = claimed.pop() {
        claims.settle(claimed, Outcome::Delivered).await.expect("settle");
    }
}

/// What failed is written, and tried again, while another event of its page is still being handled.
pub async fn a_slow_event_holds_no_retry_of_another_key(db: &impl Backend) {
    let (ledger, gate) = (Ledger::default(), Arc::new(Semaphore::new(0)));
    let tries = Arc::new(AtomicUsize::new(0));
    let handler = {
        let (ledger, gate) = (ledger.clone(), gate.clone());
        move |event: Arc<Event>| {
            let (ledger, gate, tries) = (ledger.clone(), gate.clone(), tries.clone());
            async move {
                if event.key.as_deref() == Some("slow") {
                    gate.acquire().await.expect("open").forget();
                } else if tries.fetch_add(1, Ordering::SeqCst) == 0 {
                    return Outcome::retry("not yet");
                }
                ledger.accept(&event);
                Outcome::Delivered
            }
        }
    };
    let worker = db.posthaste().handler(quick("slow"), handler).start().await.expect("start");
    db.commit(vec![event("slow", "slow"), event("k", "k-00000"), event("k", "k-00001")]).await;
    ledger.wait_for(2).await;
    assert_eq!(ledger.texts(), ["k-00000", "k-00001"]);
    gate.add_permits(1);
    ledger.wait_for(3).await;
    worker.stop().await;
}

/// An attempt that outlives the grace time of a pause is left to its lease, and made again after it: a lease that went
/// on being renewed would hold the event for ever.
pub async fn an_attempt_that_outlives_a_pause_is_made_again(db: &impl Backend) {
    let (ledger, begun) = (Ledger::default(), Arc::new(AtomicUsize::new(0)));
    let handler = {
        let (ledger, begun) = (ledger.clone(), begun.clone());
        move |event: Arc<Event>| {
            let (ledger, begun) = (ledger.clone(), begun.clone());
            async move {
                if begun.fetch_add(1, Ordering::SeqCst) == 0 {
                    std::future::pending::<()>().await;
                }
                ledger.accept(&event);
            }
        }
    };
    let subscription =
        quick("pause").claim_by(ClaimBy::Event).settings(|s| s.lease = Duration::from_millis(400));
    let builder = db.posthaste().handler(subscription, handler).grace(Duration::from_millis(100));
    let worker = builder.start().await.expect("start");
    db.commit(vec![event("k", "k-00000")]).await;
    until("the first attempt is under way", async || begun.load(Ordering::SeqCst) == 1).await;
    let admin = db.posthaste().admin();
    admin.pause("pause").await.expect("pause");
    until("the row is left to its lease", async || {
        db.deliveries("pause").await.iter().all(|row| row.status == "processing")
            && !admin_sees_lanes(&admin).await
    })
    .await;
    admin.resume("pause").await.expect("resume");
    ledger.wait_for(1).await;
    worker.stop().await;
}

/// Whether somebody still holds a lane of the paused subscription.
async fn admin_sees_lanes(admin: &posthaste::Admin) -> bool {
    let state = admin.subscription("pause").await.expect("look");
    state.lanes.iter().any(|lane| lane.held_by.is_some())
}

/// One attempt, no retry.
pub async fn a_rejected_event_is_dead_at_once(db: &impl Backend) {
    for claim_by in [ClaimBy::Batch, ClaimBy::Event] {
        let script = Script::new(|event, _| match event.text() {
            Some("bad") => Outcome::dead("unknown type"),
            _ => Outcome::Delivered,
        });
        let subscription = quick(claim_by.as_str()).claim_by(claim_by).start(Start::Now);
        let worker = db.posthaste().handler(subscription, script.clone()).start().await.expect("start");
        db.commit(vec![event("k", "bad"), event("k", "good")]).await;
        script.accepted.wait_for(1).await;
        worker.stop().await;
        assert_eq!(script.attempts.texts(), ["bad", "good"]);
        let row = db.deliveries(claim_by.as_str()).await.remove(0);
        assert_eq!((row.status.as_str(), row.attempts), ("dead", 1));
        assert_eq!(row.last_error.as_deref(), Some("unknown type"));
    }
}

/// The worker and everybody else go on.
pub async fn a_panic_is_a_failure_of_its_event_only(db: &impl Backend) {
    for order in [Order::Key, Order::None, Order::Strict] {
        let name = order.as_str();
        let script = Script::new(|event, attempt| {
            assert!(event.text() != Some("k-00003") || attempt > 2, "told to panic");
            Outcome::Delivered
        });
        let subscription = quick(name).order(order).start(Start::Now);
        let worker = db.posthaste().handler(subscription, script.clone()).start().await.expect("start");
        db.commit(numbered("k", 8)).await;
        script.accepted.wait_for(8).await;
        let retried = worker.counters().retried();
        worker.stop().await;
        assert_eq!((retried, script.attempts.len()), (2, 10), "{name}");
        if order != Order::None {
            assert_key(&script.accepted, "k", 8);
        }
        assert_eq!(db.deliveries(name).await, []);
    }
}

/// The attempt is cut off and counted; the event comes again.
pub async fn a_handler_that_takes_too_long_fails_its_event(db: &impl Backend) {
    let script = Script::accepting();
    let hung = Arc::new(AtomicBool::new(false));
    let handler = {
        let script = script.clone();
        move |event: Arc<Event>| {
            let hangs = event.text() == Some("k-00000") && !hung.swap(true, Ordering::SeqCst);
            let script = script.clone();
            async move {
                if hangs {
                    std::future::pending::<()>().await;
                }
                script.attempt(&event)
            }
        }
    };
    let subscription = quick("s").settings(|s| s.timeout = Duration::from_millis(150));
    let worker = db.posthaste().handler(subscription, handler).start().await.expect("start");
    db.commit(numbered("k", 2)).await;
    db.commit(numbered("other", 2)).await;
    script.accepted.wait_for(4).await;
    assert_eq!(worker.counters().retried(), 1);
    worker.stop().await;
    assert_key(&script.accepted, "k", 2);
    assert_key(&script.accepted, "other", 2);
}

/// An outage of the receiver costs no attempt and makes no dead letter, also across restarts.
pub async fn a_receiver_that_is_away_burns_no_attempts_whatever_is_restarted(db: &impl Backend) {
    for (order, claim_by) in [
        (Order::Key, ClaimBy::Batch),
        (Order::Key, ClaimBy::Event),
        (Order::None, ClaimBy::Batch),
        (Order::Strict, ClaimBy::Batch),
    ] {
        let name = format!("{}-{}", order.as_str(), claim_by.as_str());
        let away = Arc::new(AtomicBool::new(true));
        let gone = away.clone();
        let script = Script::new(move |_, _| match gone.load(Ordering::SeqCst) {
            true => Outcome::unavailable("connection refused"),
            false => Outcome::Delivered,
        });
        let subscription =
            quick(&name).order(order).claim_by(claim_by).start(Start::Now).settings(|s| s.max_attempts = 2);
        db.posthaste()
            .handler(subscription.clone(), script.clone())
            .start()
            .await
            .expect("declare")
            .stop()
            .await;
        db.commit(numbered("k", 20)).await;
        db.commit(numbered("other", 20)).await;
        for round in 1..=3 {
            let before = script.attempts.len();
            let worker =
                db.posthaste().handler(subscription.clone(), script.clone()).start().await.expect("start");
            script.attempts.wait_for(before + 2).await;
            worker.stop().await;
            let rows = db.deliveries(&name).await;
            assert!(
                rows.iter().all(|row| row.status == "pending" && row.attempts == 0),
                "{name} {round}: {rows:?}"
            );
        }
        away.store(false, Ordering::SeqCst);
        let worker = db.posthaste().handler(subscription, script.clone()).start().await.expect("start");
        script.accepted.wait_for(40).await;
        worker.stop().await;
        assert_eq!((script.accepted.len(), db.deliveries(&name).await.len()), (40, 0), "{name}");
        if order != Order::None {
            assert_key(&script.accepted, "k", 20);
            assert_key(&script.accepted, "other", 20);
        }
    }
}

/// A retry comes when it is due, not at the next poll, for each of several subscriptions in one process.
pub async fn every_subscription_of_a_handle_retries_in_time(db: &impl Backend) {
    let mut workers = Vec::new();
    for name in ["a", "b", "c", "d"] {
        // Only the last one has anything to try again: a signal to one of the others would be lost.
        let script = Script::new(move |_, attempt| match attempt {
            1 if name == "d" => Outcome::retry("not yet"),
            _ => Outcome::Delivered,
        });
        let subscription = quick(name).settings(|s| s.poll_interval = Duration::from_secs(600));
        workers.push((
            db.posthaste().handler(subscription, script.clone()).start().await.expect("start"),
            script,
        ));
    }
    db.commit(numbered("k", 5)).await;
    for (worker, script) in workers {
        script.accepted.wait_for(5).await;
        worker.stop().await;
        assert_key(&script.accepted, "k", 5);
    }
}
