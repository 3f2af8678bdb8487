//! Workers: stopping, settings, lanes, and being killed.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use posthaste::{ClaimBy, Event, NewEvent, Order, Outcome, Start, Subscription, WorkerEnd};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::{Backend, Process, Script, assert_key, event, numbered, of_key, quick, until};
use crate::ledger::Ledger;

fn slowly(ledger: &Ledger) -> impl posthaste::Handler + use<> {
    let ledger = ledger.clone();
    move |event: Arc<Event>| {
        let ledger = ledger.clone();
        async move {
            tokio::time::sleep(Duration::from_millis(2)).await;
            ledger.accept(&event);
        }
    }
}

fn interleaved(keys: &[&str], from: usize, to: usize) -> Vec<NewEvent> {
    (from..to).flat_map(|n| keys.iter().map(move |key| event(key, &format!("{key}-{n:05}")))).collect()
}

/// Stopped and started again while events flow: each is delivered once.
pub async fn a_graceful_stop_repeats_and_loses_nothing(db: &impl Backend) {
    for (order, claim_by) in [
        (Order::Key, ClaimBy::Batch),
        (Order::Key, ClaimBy::Event),
        (Order::None, ClaimBy::Batch),
        (Order::Strict, ClaimBy::Batch),
    ] {
        let name = format!("{}-{}", order.as_str(), claim_by.as_str());
        let (ledger, keys) = (Ledger::default(), ["a", "b", "c"]);
        let subscription = quick(&name).order(order).claim_by(claim_by).start(Start::Now).settings(|s| {
            s.batch_size = 20;
            s.concurrency = 4;
        });
        db.posthaste()
            .handler(subscription.clone(), slowly(&ledger))
            .start()
            .await
            .expect("declare")
            .stop()
            .await;
        db.commit(interleaved(&keys, 0, 50)).await;
        for part in 1..=3 {
            let worker =
                db.posthaste().handler(subscription.clone(), slowly(&ledger)).start().await.expect("start");
            ledger.wait_for(part * 35).await;
            worker.stop().await;
        }
        let worker = db.another().await.handler(subscription, slowly(&ledger)).start().await.expect("start");
        ledger.wait_for(150).await;
        worker.stop().await;
        assert_eq!(ledger.len(), 150, "{name}");
        if order != Order::None {
            keys.iter().for_each(|key| assert_key(&ledger, key, 50));
        }
        assert_eq!(db.deliveries(&name).await, [], "{name}");
    }
}

/// A handler that hangs is left behind after the grace time; its event comes again.
pub async fn a_stop_does_not_wait_for_ever(db: &impl Backend) {
    for order in [Order::Key, Order::None, Order::Strict] {
        let name = order.as_str();
        let script = Script::accepting();
        let attempts = script.attempts.clone();
        let hang = move |event: Arc<Event>| {
            attempts.accept(&event);
            std::future::pending::<()>()
        };
        let subscription =
            quick(name).order(order).start(Start::Now).settings(|s| s.lease = Duration::from_millis(400));
        let worker = db.posthaste().handler(subscription.clone(), hang).grace(Duration::from_millis(100));
        let worker = worker.start().await.expect("start");
        db.commit(numbered("k", 3)).await;
        script.attempts.wait_for(1).await;
        tokio::time::timeout(Duration::from_secs(20), worker.stop()).await.expect("the stop comes to an end");
        let worker = db.posthaste().handler(subscription, script.clone()).start().await.expect("start");
        script.accepted.wait_for(3).await;
        worker.stop().await;
        if order != Order::None {
            assert_key(&script.accepted, "k", 3);
        }
    }
}

/// A worker whose subscription is deleted ends by itself, does not declare it again, and says why.
pub async fn a_worker_tells_whether_it_was_stopped_or_its_subscription_deleted(db: &impl Backend) {
    let admin = db.posthaste().admin();
    for order in [Order::Key, Order::None, Order::Strict] {
        let name = order.as_str();
        let start = async |stop: &CancellationToken| {
            let subscription = quick(name).order(order);
            let worker = db.posthaste().handler(subscription, Script::accepting()).start_until(stop.clone());
            worker.await.expect("start")
        };
        let stop = CancellationToken::new();
        let worker = start(&stop).await;
        stop.cancel();
        assert_eq!(worker.stopped().await, WorkerEnd::Stopped, "{name}");
        let stop = CancellationToken::new();
        let worker = start(&stop).await;
        // What is held cannot be deleted.
        admin.pause(name).await.expect("paused");
        until("nothing is held", async || admin.delete_subscription(name).await.is_ok()).await;
        assert_eq!(worker.stopped().await, WorkerEnd::Deleted, "{name}");
        assert!(!stop.is_cancelled(), "{name}: the caller's token is the caller's");
        assert!(admin.subscription(name).await.is_err(), "{name} was declared again");
    }
}

/// A new declaration reaches workers that run already.
pub async fn settings_take_effect_on_a_running_worker(db: &impl Backend) {
    let script = Script::new(|_, _| Outcome::retry("broken"));
    let patient = quick("s").settings(|s| s.max_attempts = 10_000);
    let worker = db.posthaste().handler(patient, script.clone()).start().await.expect("start");
    db.commit(vec![event("k", "x")]).await;
    script.attempts.wait_for(3).await;
    let strict = quick("s").settings(|s| s.max_attempts = 4);
    db.another().await.handler(strict, script.clone()).start().await.expect("declare").stop().await;
    until("the new limit ends it", async || db.deliveries("s").await.iter().any(|row| row.status == "dead"))
        .await;
    worker.stop().await;
    let bad = db.posthaste().handler(quick("s").settings(|s| s.batch_size = 0), script).start().await;
    assert_eq!(bad.err().map(|error| error.kind()), Some(posthaste::ErrorKind::Invalid));
}

/// 1 to 4 to 2 lanes while two workers run and events flow, some of them failing.
pub async fn changing_the_lanes_loses_repeats_and_reorders_nothing(db: &impl Backend) {
    let keys = ["a", "b", "c", "d", "e", "f", "g", "h"];
    let script = Script::new(|event, attempt| match event.seq % 11 {
        0 if attempt == 1 => Outcome::retry("not yet"),
        _ => Outcome::Delivered,
    });
    let other = db.another().await;
    let with = |lanes: u16| {
        quick("s").lanes(lanes).settings(|s| {
            s.batch_size = 10;
            s.lease = Duration::from_secs(3);
        })
    };
    let mut workers = vec![db.posthaste().handler(with(1), script.clone()).start().await.expect("start")];
    for (round, lanes) in [(0, 1), (1, 4), (2, 2)] {
        db.commit(interleaved(&keys, round * 30, round * 30 + 10)).await;
        let handle = if round % 2 == 0 { db.posthaste() } else { &other };
        workers.push(handle.handler(with(lanes), script.clone()).start().await.expect("start"));
        for n in 1..3 {
            db.commit(interleaved(&keys, round * 30 + n * 10, round * 30 + n * 10 + 10)).await;
        }
    }
    script.accepted.wait_for(8 * 90).await;
    for worker in workers {
        worker.stop().await;
    }
    keys.iter().for_each(|key| assert_key(&script.accepted, key, 90));
    assert_eq!(db.deliveries("s").await, []);
}

/// Lanes without events must not hold up those with events.
pub async fn changing_the_lanes_does_not_wait_for_events_in_every_lane(db: &impl Backend) {
    let script = Script::accepting();
    let with = |lanes: u16| quick("s").lanes(lanes).settings(|s| s.poll_interval = Duration::from_secs(600));
    let worker = db.posthaste().handler(with(8), script.clone()).start().await.expect("start");
    let mut sent = 0;
    for lanes in [3, 8, 2] {
        db.commit(vec![event("only", &format!("only-{sent:05}"))]).await;
        sent += 1;
        script.accepted.wait_for(sent).await;
        db.another().await.handler(with(lanes), script.clone()).start().await.expect("declare").stop().await;
        db.commit(vec![event("only", &format!("only-{sent:05}"))]).await;
        sent += 1;
        script.accepted.wait_for(sent).await;
    }
    worker.stop().await;
    assert_key(&script.accepted, "only", sent);
}

/// Two processes work on one subscription at the same time.
pub async fn two_workers_share_the_lanes(db: &impl Backend) {
    let (first, second, all) = (Script::accepting(), Script::accepting(), Ledger::default());
    let keys = ["a", "b", "c", "d", "e", "f", "g", "h"];
    let subscription = quick("s").lanes(4).settings(|s| s.lease = Duration::from_secs(1));
    let record = |script: &Script| {
        let (script, all) = (script.clone(), all.clone());
        move |event: Arc<Event>| {
            all.accept(&event);
            let outcome = script.attempt(&event);
            async move { outcome }
        }
    };
    let a = db.posthaste().handler(subscription.clone(), record(&first)).start().await.expect("start");
    let b = db.another().await.handler(subscription, record(&second)).start().await.expect("start");
    let mut rounds = 0;
    until("both take part", async || {
        db.commit(interleaved(&keys, rounds, rounds + 1)).await;
        rounds += 1;
        !first.accepted.is_empty() && !second.accepted.is_empty()
    })
    .await;
    all.wait_for(rounds * keys.len()).await;
    a.stop().await;
    // What is left alone takes over all of it.
    db.commit(interleaved(&keys, rounds, rounds + 5)).await;
    all.wait_for((rounds + 5) * keys.len()).await;
    b.stop().await;
    keys.iter().for_each(|key| assert_key(&all, key, rounds + 5));
}

/// First deliveries keep the order of their key, whoever makes them; copies are allowed after a kill.
pub async fn a_killed_worker_is_succeeded_without_loss_or_reordering(db: &impl Backend) {
    for (order, claim_by) in [
        (Order::Key, ClaimBy::Batch),
        (Order::Key, ClaimBy::Event),
        (Order::None, ClaimBy::Batch),
        (Order::Strict, ClaimBy::Batch),
    ] {
        let name = format!("{}-{}", order.as_str(), claim_by.as_str());
        let (ledger, keys) = (Ledger::default(), ["a", "b"]);
        let subscription = quick(&name).order(order).claim_by(claim_by).start(Start::Now).settings(|s| {
            s.lease = Duration::from_millis(400);
            s.batch_size = 10;
        });
        db.posthaste()
            .handler(subscription.clone(), slowly(&ledger))
            .start()
            .await
            .expect("declare")
            .stop()
            .await;
        db.commit(interleaved(&keys, 0, 40)).await;
        let (open, theirs, recorded) = (db.opener(), subscription.clone(), ledger.clone());
        let victim = Process::start(async move {
            open().await.handler(theirs, slowly(&recorded)).start().await.expect("start");
        })
        .await;
        ledger.wait_for(25).await;
        victim.kill();
        let heir = db.posthaste().handler(subscription, slowly(&ledger)).start().await.expect("start");
        let firsts = |key: &str| {
            let mut seen = Vec::new();
            of_key(&ledger, key)
                .into_iter()
                .filter(|text| {
                    !seen.contains(text) && {
                        seen.push(text.clone());
                        true
                    }
                })
                .count()
        };
        until("all have been delivered", async || keys.iter().all(|key| firsts(key) == 40)).await;
        heir.stop().await;
        assert!(ledger.len() - 80 <= 20, "{name}: at most two batches are repeated, {}", ledger.len());
        if order != Order::None {
            for key in keys {
                let mut seen: Vec<String> = Vec::new();
                for text in of_key(&ledger, key) {
                    if !seen.contains(&text) {
                        seen.push(text);
                    }
                }
                assert!(seen.is_sorted(), "{name} {key}: {seen:?}");
            }
        }
        assert_eq!(db.deliveries(&name).await, [], "{name}");
    }
}

/// Claimed by event, a kill repeats only what was running; claimed by batch, the page.
pub async fn claimed_by_event_a_kill_repeats_only_what_was_running(db: &impl Backend) {
    for (order, claim_by, repeated) in
        [(Order::Key, ClaimBy::Event, 2), (Order::None, ClaimBy::Event, 2), (Order::Key, ClaimBy::Batch, 39)]
    {
        let name = format!("{}-{}", order.as_str(), claim_by.as_str());
        let subscription = quick(&name).order(order).claim_by(claim_by).start(Start::Now);
        let subscription = subscription.settings(|s| s.lease = Duration::from_millis(600));
        let worker = db.posthaste().handler(subscription.clone(), Script::accepting()).start().await;
        worker.expect("declare").stop().await;
        db.commit((0..40).map(|n| event(&format!("key-{n}"), &format!("{n:02}"))).collect()).await;
        let done = Ledger::default();
        let (open, theirs, ledger) = (db.opener(), subscription.clone(), done.clone());
        let victim = Process::start(async move {
            let handler = move |event: Arc<Event>| two_hang_and_one_fails(ledger.clone(), event);
            open().await.handler(theirs, handler).start().await.expect("start");
        })
        .await;
        done.wait_for(37).await;
        let state = async || db.posthaste().admin().subscription(&name).await.expect("the subscription");
        until("what was handled is recorded", async || {
            let state = state().await;
            claim_by == ClaimBy::Batch
                || (state.in_flight.exact(), state.retrying.exact()) == (Some(2), Some(1))
        })
        .await;
        victim.kill();
        let script = Script::accepting();
        let heir = db.posthaste().handler(subscription, script.clone()).start().await.expect("start");
        script.accepted.wait_for(repeated).await;
        until("nothing is left", async || state().await.in_flight.is_zero()).await;
        heir.stop().await;
        let (mut texts, delivered) = (script.attempts.texts(), done.texts());
        texts.sort();
        texts.dedup();
        assert!(["07", "23"].iter().all(|text| texts.contains(&(*text).to_owned())), "{name}: {texts:?}");
        assert!(texts.len() >= repeated, "{name}: {texts:?}");
        if claim_by == ClaimBy::Event {
            assert_eq!(texts, ["07", "23"], "{name}: {delivered:?}");
        }
    }
}

async fn two_hang_and_one_fails(ledger: Ledger, event: Arc<Event>) -> Outcome {
    match event.text() {
        Some("07" | "23") => std::future::pending().await,
        Some("11") => Outcome::retry_after(Duration::from_secs(3600), "not now"),
        _ => {
            ledger.accept(&event);
            Outcome::Delivered
        }
    }
}

/// It is found out, alone; what was claimed together with it is delivered.
pub async fn an_event_that_kills_its_worker_dies_alone(db: &impl Backend) {
    for order in [Order::Key, Order::Strict] {
        let name = order.as_str();
        let subscription: Subscription = quick(name).order(order).start(Start::Now).settings(|s| {
            s.lease = Duration::from_millis(300);
            s.max_attempts = 2;
        });
        let (ledger, killed, hit) =
            (Ledger::default(), Arc::new(Notify::new()), Arc::new(AtomicBool::new(false)));
        db.posthaste()
            .handler(subscription.clone(), slowly(&ledger))
            .start()
            .await
            .expect("declare")
            .stop()
            .await;
        let mut events = numbered("k", 3);
        events.insert(1, event("poison", "poison"));
        let poison = db.commit(events).await[1].id;
        let deadline = Instant::now() + Duration::from_secs(40);
        let done = async || {
            let rows = db.deliveries(name).await;
            let mut texts = of_key(&ledger, "k");
            texts.dedup();
            rows.len() == 1
                && rows[0].status == "dead"
                && rows[0].id == poison
                && texts.contains(&"k-00002".to_owned())
        };
        while !done().await {
            assert!(
                Instant::now() < deadline,
                "{name}: {:?} {:?}",
                db.deliveries(name).await,
                ledger.texts()
            );
            let handler = {
                let (ledger, killed, hit) = (ledger.clone(), killed.clone(), hit.clone());
                move |event: Arc<Event>| {
                    let (ledger, killed, hit) = (ledger.clone(), killed.clone(), hit.clone());
                    async move {
                        if event.text() == Some("poison") {
                            hit.store(true, Ordering::SeqCst);
                            killed.notify_one();
                            std::future::pending::<()>().await;
                        }
                        ledger.accept(&event);
                    }
                }
            };
            let (open, theirs) = (db.opener(), subscription.clone());
            let victim = Process::start(async move {
                open().await.handler(theirs, handler).start().await.expect("start");
            })
            .await;
            tokio::select! {
                () = killed.notified() => {}
                () = until("it is over", done) => {}
            }
            victim.kill();
        }
        assert!(hit.load(Ordering::SeqCst));
    }
}
