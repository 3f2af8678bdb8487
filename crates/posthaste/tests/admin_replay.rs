//! Replay: everything from a place on again, nothing below it, and what was never read exactly once.

#[expect(dead_code, reason = "shared by several test programs; this one uses its part")]
#[macro_use]
mod admin_common;

use std::sync::Arc;
use std::time::Duration;

use admin_common::*;
use posthaste::admin::{EventStatus, ReplayFrom};
use posthaste::{ClaimBy, Event, Order, Outcome, Start, Subscription};
use posthaste_testkit::{Ledger, TestDatabase};

/// A short lease: a worker that stopped counts as alive until its lease has run out, and keeps its share of the lanes.
fn of_lanes(lanes: u16) -> Subscription {
    quick("s").lanes(lanes).settings(|s| s.lease = Duration::from_secs(1))
}

fn count(texts: &[String], text: &str) -> usize {
    texts.iter().filter(|t| *t == text).count()
}

on_every_database!(
    a_replay_delivers_everything_from_its_place_again_and_nothing_below,
    a_replay_while_a_worker_is_in_the_middle_loses_nothing,
    a_replay_from_above_what_is_in_flight_does_not_skip_it,
    events_that_have_a_delivery_are_left_to_it,
    a_replay_can_go_back_before_the_start_and_by_time,
    a_replay_while_lanes_are_split_reaches_every_key,
);

async fn a_replay_delivers_everything_from_its_place_again_and_nothing_below<D: Database>() {
    for order in [Order::Key, Order::None, Order::Strict] {
        let db = D::fresh().await;
        let admin = db.posthaste().admin();
        let ledger = Ledger::default();
        let worker = accepting(&db, quick("s").order(order), &ledger).await;
        let ids = enqueue_numbered(&db, "k", 1..=10).await;
        ledger.wait_for(10).await;
        until("settled", async || admin.subscription("s").await.unwrap().lag.is_zero()).await;
        admin.replay("s", ReplayFrom::Event(ids[6])).await.unwrap();
        // The worker is idle and no new event comes: it must notice by itself.
        ledger.wait_for(14).await;
        enqueue_numbered(&db, "k", 11..=12).await;
        ledger.wait_for(16).await;
        until("settled", async || admin.subscription("s").await.unwrap().lag.is_zero()).await;
        worker.stop().await;
        let texts = ledger.texts();
        assert_eq!(texts.len(), 16, "{order:?}: {texts:?}");
        assert!(
            ids.len() == 10 && (1..=6).all(|n| count(&texts, &format!("k{n:03}")) == 1),
            "{order:?}: {texts:?}"
        );
        assert!((7..=10).all(|n| count(&texts, &format!("k{n:03}")) == 2), "{order:?}: {texts:?}");
        assert!((11..=12).all(|n| count(&texts, &format!("k{n:03}")) == 1), "{order:?}: {texts:?}");
        if order != Order::None {
            assert!(texts[10..].is_sorted(), "{order:?}: in order again: {texts:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_below_the_place_that_commits_late_is_delivered_exactly_once() {
    for claim_by in [ClaimBy::Batch, ClaimBy::Event] {
        let db = TestDatabase::new().await;
        let admin = db.posthaste.admin();
        let ledger = Ledger::default();
        let worker = accepting(&db, quick("s").claim_by(claim_by), &ledger).await;
        let mut late = db.pool.begin().await.unwrap();
        db.posthaste.enqueue(&mut late, event("late", "late")).await.unwrap();
        let ids = enqueue_numbered(&db, "k", 1..=6).await;
        ledger.wait_for(6).await;
        until("settled", async || admin.subscription("s").await.unwrap().lag.is_zero()).await;
        admin.replay("s", ReplayFrom::Event(ids[3])).await.unwrap();
        ledger.wait_for(9).await;
        late.commit().await.unwrap();
        ledger.wait_for(10).await;
        enqueue_numbered(&db, "k", 7..=7).await;
        ledger.wait_for(11).await;
        worker.stop().await;
        let texts = ledger.texts();
        assert_eq!((texts.len(), count(&texts, "late")), (11, 1), "{texts:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_transaction_that_began_within_an_open_window_is_not_lost_by_a_replay() {
    let db = TestDatabase::new().await;
    let admin = db.posthaste.admin();
    let mut claims = db.posthaste.claims(&quick("s")).await.unwrap();
    enqueue_numbered(&db, "k", 1..=4).await;
    // Begun after the start, still open when the window is fixed, and below the place of the replay.
    let mut late = db.pool.begin().await.unwrap();
    db.posthaste.enqueue(&mut late, event("late", "late")).await.unwrap();
    let ids = enqueue_numbered(&db, "k", 5..=20).await;
    for claimed in claims.claim(10).await.unwrap() {
        claims.settle(claimed, Outcome::Delivered).await.unwrap();
    }
    assert_eq!(
        db.scalar("select count(*) from posthaste.progress where hi is not null").await,
        1,
        "a window is open"
    );
    admin.replay("s", ReplayFrom::Event(ids[3])).await.unwrap();
    late.commit().await.unwrap();
    let texts = drain(&mut claims).await;
    assert_eq!(count(&texts, "late"), 1, "{texts:?}");
    let rest: Vec<String> = texts.into_iter().filter(|text| text != "late").collect();
    let expected: Vec<String> = (8..=20).map(|n| format!("k{n:03}")).collect();
    assert_eq!(rest, expected, "from the place on, and nothing below it");
}

async fn a_replay_while_a_worker_is_in_the_middle_loses_nothing<D: Database>() {
    for order in [Order::Key, Order::None, Order::Strict] {
        let db = D::fresh().await;
        let admin = db.posthaste().admin();
        let ledger = Ledger::default();
        let accept = ledger.clone();
        let (open, gate) = tokio::sync::watch::channel(false);
        let handler = move |event: Arc<Event>| {
            let (mut gate, accept) = (gate.clone(), accept.clone());
            async move {
                if event.text() == Some("k015") {
                    gate.wait_for(|open| *open).await.unwrap();
                }
                accept.accept(&event);
            }
        };
        let subscription = quick("s").order(order).settings(|s| s.batch_size = 10);
        let worker = db.posthaste().handler(subscription, handler).start().await.unwrap();
        let ids = enqueue(&db, (1..=30).map(|n| event("k", &format!("k{n:03}"))).collect()).await;
        ledger.wait_for(14).await;
        admin.replay("s", ReplayFrom::Event(ids[4])).await.unwrap();
        open.send(true).unwrap();
        until("all done", async || admin.subscription("s").await.unwrap().lag.is_zero()).await;
        worker.stop().await;
        let texts = ledger.texts();
        for n in 1..=30 {
            let times = count(&texts, &format!("k{n:03}"));
            assert!(times >= 1, "{order:?}: {n} was lost");
            assert!(n >= 5 || times == 1, "{order:?}: {n} lies below the place and came {times} times");
        }
        assert!((5..=10).all(|n| count(&texts, &format!("k{n:03}")) >= 2), "{order:?}: replayed: {texts:?}");
        if order == Order::Strict {
            let last: Vec<_> = texts.iter().skip_while(|text| *text != "k014").skip(1).collect();
            let again = last.iter().position(|text| *text == "k005").unwrap();
            assert!(last[again..].is_sorted(), "strict order holds in a replay: {texts:?}");
        }
    }
}

async fn a_replay_from_above_what_is_in_flight_does_not_skip_it<D: Database>() {
    for order in [Order::Key, Order::None, Order::Strict] {
        let db = D::fresh().await;
        let admin = db.posthaste().admin();
        let ledger = Ledger::default();
        let accept = ledger.clone();
        let (open, gate) = tokio::sync::watch::channel(false);
        let handler = move |event: Arc<Event>| {
            let (mut gate, accept) = (gate.clone(), accept.clone());
            async move {
                // Its first attempt ends after the replay and without success: only the store can remember it.
                if event.text() == Some("k015") && !*gate.borrow() {
                    gate.wait_for(|open| *open).await.unwrap();
                    return Outcome::retry("not yet");
                }
                accept.accept(&event);
                Outcome::Delivered
            }
        };
        let subscription = quick("s").order(order).settings(|s| s.batch_size = 10);
        let worker = db.posthaste().handler(subscription, handler).start().await.unwrap();
        let ids = enqueue(&db, (1..=30).map(|n| event("k", &format!("k{n:03}"))).collect()).await;
        ledger.wait_for(14).await;
        admin.replay("s", ReplayFrom::Event(ids[24])).await.unwrap();
        open.send(true).unwrap();
        until("all done", async || admin.subscription("s").await.unwrap().lag.is_zero()).await;
        worker.stop().await;
        let texts = ledger.texts();
        let lost: Vec<_> = (1..=30).filter(|n| count(&texts, &format!("k{n:03}")) == 0).collect();
        assert!(lost.is_empty(), "{order:?}: {lost:?}");
    }
}

async fn events_that_have_a_delivery_are_left_to_it<D: Database>() {
    let db = D::fresh().await;
    let admin = db.posthaste().admin();
    let mut claims = db.posthaste().claims(&quick("s")).await.unwrap();
    let ids = enqueue(&db, vec![event("a", "bad"), event("b", "later"), event("c", "c1")]).await;
    assert_eq!(drain(&mut claims).await, ["c1"]);
    admin.replay("s", ReplayFrom::Beginning).await.unwrap();
    assert_eq!(status(&admin, ids[2], "s").await, Some(EventStatus::Pending));
    assert_eq!(admin.subscription("s").await.unwrap().lag.exact(), Some(2), "nothing is counted twice");
    assert_eq!(drain(&mut claims).await, ["c1"]);
    let dead = state(&admin, ids[0], "s").await.unwrap();
    assert_eq!((dead.status, dead.attempts), (EventStatus::Dead, 1), "it was not tried again");
    assert_eq!(state(&admin, ids[1], "s").await.unwrap().attempts, 1);
}

async fn a_replay_can_go_back_before_the_start_and_by_time<D: Database>() {
    let db = D::fresh().await;
    let admin = db.posthaste().admin();
    let mut before = Vec::new();
    for n in 1..=3 {
        before.extend(enqueue_numbered(&db, "k", n..=n).await);
        // SQLite's clock counts milliseconds.
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    let mut claims = db.posthaste().claims(&quick("s").start(Start::Now)).await.unwrap();
    assert!(drain(&mut claims).await.is_empty());
    assert_eq!(status(&admin, before[1], "s").await, None, "it lies before the start");
    let time = admin.event(before[1]).await.unwrap().event.created_at;
    admin.replay("s", ReplayFrom::Time(time)).await.unwrap();
    assert_eq!(status(&admin, before[1], "s").await, Some(EventStatus::Pending));
    assert_eq!(drain(&mut claims).await, ["k002", "k003"]);
    assert_eq!(status(&admin, before[1], "s").await, Some(EventStatus::Delivered));
    assert_eq!(status(&admin, before[0], "s").await, None);
    let future = chrono::Utc::now() + chrono::Duration::hours(1);
    admin.replay("s", ReplayFrom::Time(future)).await.unwrap();
    enqueue_numbered(&db, "k", 4..=4).await;
    assert_eq!(drain(&mut claims).await, ["k004"], "a replay never skips anything");
}

async fn a_replay_while_lanes_are_split_reaches_every_key<D: Database>() {
    let db = D::fresh().await;
    let admin = db.posthaste().admin();
    let ledger = Ledger::default();
    let keys: Vec<String> = (0..12).map(|n| format!("k{n}")).collect();
    let of = |round: u32| keys.iter().map(|key| event(key, &format!("{key}-{round}"))).collect::<Vec<_>>();
    let worker = accepting(&db, of_lanes(2), &ledger).await;
    let first = enqueue(&db, of(1)).await;
    ledger.wait_for(12).await;
    worker.stop().await;
    // Split while nobody works, so that the old lanes are not at their end yet; then one of them comes there.
    let mut claims = db.posthaste().claims(&of_lanes(3)).await.unwrap();
    enqueue(&db, of(2)).await;
    drop(claims.claim(1).await.unwrap());
    admin.replay("s", ReplayFrom::Event(first[0])).await.unwrap();
    db.run("delete from posthaste.deliveries").await;
    let ledger = Ledger::default();
    let worker = accepting(&db, of_lanes(3), &ledger).await;
    until("all done", async || admin.subscription("s").await.unwrap().lag.is_zero()).await;
    worker.stop().await;
    let texts = ledger.texts();
    assert!(keys.iter().all(|key| count(&texts, &format!("{key}-1")) >= 1), "{texts:?}");
}
