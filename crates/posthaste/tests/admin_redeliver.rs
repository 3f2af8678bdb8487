//! One old event once more to one subscription: whatever became of it, in the order of its key, and to nobody else.

#[expect(dead_code, reason = "shared by several test programs; this one uses its part")]
#[macro_use]
mod admin_common;

use std::time::Duration;

use admin_common::*;
use posthaste::admin::{EventStatus, Redelivery, RetentionPolicy};
use posthaste::{AfterDead, Claims, Error, ErrorKind, NewEvent, Order, Outcome, Start};
use posthaste_testkit::Ledger;

on_every_database!(
    a_delivered_event_comes_once_more_to_the_one_that_was_named,
    it_takes_its_place_in_the_order_of_its_key,
    it_waits_behind_a_dead_letter_that_blocks_its_key,
    a_dead_letter_begins_anew_with_its_first_step,
    what_was_not_delivered_yet_comes_anyway,
    what_a_worker_holds_is_left_to_it,
    an_event_that_is_not_for_the_subscription_is_refused,
    retention_keeps_an_event_that_goes_out_again_and_one_that_is_gone_is_refused,
    a_paused_subscription_delivers_it_when_it_goes_on,
);

async fn delivered(claims: &mut Claims, bodies: &[&str]) {
    assert_eq!(drain(claims).await, bodies);
}

async fn a_delivered_event_comes_once_more_to_the_one_that_was_named<D: Database>() {
    for order in [Order::Key, Order::None, Order::Strict] {
        for db in D::everywhere().await {
            let admin = db.posthaste().admin().acting_as("maria");
            let (ledger, other) = (Ledger::default(), Ledger::default());
            let workers = [
                accepting(&db, quick("s").order(order), &ledger).await,
                accepting(&db, quick("t").order(order), &other).await,
            ];
            let ids = enqueue_numbered(&db, "k", 1..=3).await;
            let settled = async || {
                let states = admin.subscriptions().await.unwrap();
                states.iter().all(|state| state.lag.is_zero())
            };
            ledger.wait_for(3).await;
            other.wait_for(3).await;
            until("settled", settled).await;
            assert_eq!(admin.redeliver("s", ids[0]).await.unwrap(), Redelivery::Due, "{order:?}");
            ledger.wait_for(4).await;
            until("settled", settled).await;
            let texts = ledger.texts();
            assert_eq!((texts.len(), texts[3].as_str()), (4, "k001"), "{order:?}: {texts:?}");
            assert_eq!(other.texts().len(), 3, "{order:?}");
            assert_eq!(status(&admin, ids[0], "s").await, Some(EventStatus::Delivered));
            let deed = admin.operations_on(ids[0]).await.unwrap();
            assert_eq!((deed.len(), deed[0].verb.as_str(), deed[0].who.as_str()), (1, "redeliver", "maria"));
            assert_eq!(deed[0].subscription.as_deref(), Some("s"));
            for worker in workers {
                worker.stop().await;
            }
        }
    }
}

async fn it_takes_its_place_in_the_order_of_its_key<D: Database>() {
    let db = D::fresh().await;
    let admin = db.posthaste().admin();
    let mut claims = db.posthaste().claims(&quick("s")).await.unwrap();
    let bodies = ["a1", "later", "a3"].map(|body| event("a", body)).to_vec();
    let ids = enqueue(&db, bodies).await;
    delivered(&mut claims, &["a1"]).await;
    assert_eq!(admin.redeliver("s", ids[0]).await.unwrap(), Redelivery::Due);
    let mut parked = Vec::new();
    for id in &ids {
        parked.push(state(&admin, *id, "s").await.unwrap().parked);
    }
    assert_eq!(parked, [false, true, true], "what waits for its turn waits behind it");
    assert_eq!(admin.redeliver("s", ids[0]).await.unwrap(), Redelivery::Coming, "asked twice, it comes once");
    delivered(&mut claims, &["a1"]).await;
    delivered(&mut claims, &[]).await;
    assert_eq!(admin.operations_on(ids[0]).await.unwrap().len(), 1, "the second time nothing was done");
}

async fn it_waits_behind_a_dead_letter_that_blocks_its_key<D: Database>() {
    let db = D::fresh().await;
    let admin = db.posthaste().admin();
    let mut claims = db.posthaste().claims(&quick("s").after_dead(AfterDead::Block)).await.unwrap();
    let ids = enqueue(&db, vec![event("a", "a1"), event("a", "a2")]).await;
    delivered(&mut claims, &["a1", "a2"]).await;
    // The first one dies on its second way: from now on it holds the key.
    assert_eq!(admin.redeliver("s", ids[0]).await.unwrap(), Redelivery::Due);
    settle_next(&mut claims, Outcome::dead("gone")).await;
    assert_eq!(admin.redeliver("s", ids[1]).await.unwrap(), Redelivery::Parked);
    assert_eq!(admin.redeliver("s", ids[1]).await.unwrap(), Redelivery::Parked);
    delivered(&mut claims, &[]).await;
    assert_eq!(admin.release_key("s", "a").await.unwrap(), 1);
    delivered(&mut claims, &["a2"]).await;
}

async fn settle_next(claims: &mut Claims, outcome: Outcome) {
    let claimed = claims.claim(1).await.unwrap().pop().expect("one is due");
    claims.settle(claimed, outcome).await.unwrap();
}

async fn a_dead_letter_begins_anew_with_its_first_step<D: Database>() {
    let db = D::fresh().await;
    let admin = db.posthaste().admin();
    let mut claims = db.posthaste().claims(&quick("s")).await.unwrap();
    let ids = enqueue(&db, vec![event("a", "bad"), event("b", "later")]).await;
    drain(&mut claims).await;
    db.run("update posthaste.deliveries set steps = 1").await;
    for id in ids {
        assert_eq!(admin.redeliver("s", id).await.unwrap(), Redelivery::Due);
        let state = state(&admin, id, "s").await.unwrap();
        assert_eq!((state.status, state.attempts), (EventStatus::Pending, 0));
        assert_eq!(admin.operations_on(id).await.unwrap()[0].verb, "redeliver");
    }
    assert_eq!(db.scalar("select count(*) from posthaste.deliveries where steps = 0").await, 2);
}

async fn what_was_not_delivered_yet_comes_anyway<D: Database>() {
    let db = D::fresh().await;
    let admin = db.posthaste().admin();
    let mut claims = db.posthaste().claims(&quick("s")).await.unwrap();
    let retried = enqueue(&db, vec![event("a", "later")]).await;
    drain(&mut claims).await;
    let new = enqueue(&db, vec![event("b", "b1")]).await;
    for id in [retried[0], new[0]] {
        assert_eq!(admin.redeliver("s", id).await.unwrap(), Redelivery::Coming);
        assert!(admin.operations_on(id).await.unwrap().is_empty());
    }
    delivered(&mut claims, &["b1"]).await;
    delivered(&mut claims, &[]).await;
}

async fn what_a_worker_holds_is_left_to_it<D: Database>() {
    for db in D::everywhere().await {
        let admin = db.posthaste().admin();
        let mut claims = db.posthaste().claims(&quick("s")).await.unwrap();
        let ids = enqueue(&db, vec![event("a", "a1")]).await;
        let first = claims.claim(1).await.unwrap().pop().unwrap();
        assert_eq!(admin.redeliver("s", ids[0]).await.unwrap(), Redelivery::Held, "in a batch");
        claims.settle(first, Outcome::Delivered).await.unwrap();
        assert_eq!(admin.redeliver("s", ids[0]).await.unwrap(), Redelivery::Due);
        let second = claims.claim(1).await.unwrap().pop().unwrap();
        assert_eq!(admin.redeliver("s", ids[0]).await.unwrap(), Redelivery::Held, "as a delivery");
        claims.settle(second, Outcome::Delivered).await.unwrap();
        delivered(&mut claims, &[]).await;
    }
}

async fn an_event_that_is_not_for_the_subscription_is_refused<D: Database>() {
    let db = D::fresh().await;
    let admin = db.posthaste().admin();
    let early = enqueue(&db, vec![event("a", "early")]).await;
    let mut claims = db.posthaste().claims(&quick("s").topic("orders").start(Start::Now)).await.unwrap();
    let filtered = enqueue(&db, vec![NewEvent::bytes("parcels", b"p".to_vec())]).await;
    delivered(&mut claims, &[]).await;
    for id in [early[0], filtered[0]] {
        let refused = admin.redeliver("s", id).await.unwrap_err();
        assert!(matches!(refused, Error::NotWanted { .. }), "{refused}");
        assert_eq!(refused.kind(), ErrorKind::Invalid);
        assert!(refused.to_string().contains("`s` does not take event"), "{refused}");
    }
    delivered(&mut claims, &[]).await;
    let unknown = admin.redeliver("nobody", early[0]).await.unwrap_err();
    assert!(matches!(unknown, Error::NoSuchSubscription(_)), "{unknown}");
}

async fn retention_keeps_an_event_that_goes_out_again_and_one_that_is_gone_is_refused<D: Database>() {
    let db = D::fresh().await;
    let admin = db.posthaste().admin();
    let mut claims = db.posthaste().claims(&quick("s")).await.unwrap();
    let ids = enqueue_numbered(&db, "k", 1..=3).await;
    delivered(&mut claims, &["k001", "k002", "k003"]).await;
    assert_eq!(admin.redeliver("s", ids[1]).await.unwrap(), Redelivery::Due);
    let policy = RetentionPolicy::new(|policy| policy.events_older_than = Duration::ZERO);
    until("the first is removed", async || {
        admin.retain(&policy).await.unwrap();
        admin.event(ids[0]).await.is_err()
    })
    .await;
    delivered(&mut claims, &["k002"]).await;
    let gone = admin.redeliver("s", ids[0]).await.unwrap_err();
    assert!(matches!(gone, Error::NoSuchEvent(_)), "{gone}");
}

async fn a_paused_subscription_delivers_it_when_it_goes_on<D: Database>() {
    let db = D::fresh().await;
    let admin = db.posthaste().admin();
    let ids = enqueue_numbered(&db, "k", 1..=1).await;
    let mut claims = db.posthaste().claims(&quick("s")).await.unwrap();
    delivered(&mut claims, &["k001"]).await;
    admin.pause("s").await.unwrap();
    assert_eq!(admin.redeliver("s", ids[0]).await.unwrap(), Redelivery::Due);
    // Declared anew, it knows at once that it is paused.
    let mut claims = db.posthaste().claims(&quick("s")).await.unwrap();
    delivered(&mut claims, &[]).await;
    assert_eq!(status(&admin, ids[0], "s").await, Some(EventStatus::Pending));
    admin.resume("s").await.unwrap();
    let mut texts = Vec::new();
    until("it goes on", async || {
        texts.extend(drain(&mut claims).await);
        !texts.is_empty()
    })
    .await;
    assert_eq!(texts, ["k001"]);
}
