//! The smaller questions of people: keys that wait, counts before a verb, the journal and the record of one event.

#[expect(dead_code, reason = "shared by several test programs; this one uses its part")]
#[macro_use]
mod admin_common;

use std::time::Duration;

use admin_common::*;
use posthaste::admin::{DeliveryQuery, EventQuery, RetentionPolicy, SettingsChange};
use posthaste::{AfterDead, DeliveryStatus, NewEvent, Order};
use posthaste_testkit::Ledger;

on_every_database!(
    keys_that_wait_are_listed_with_what_holds_them,
    a_dead_letter_holds_its_key_only_where_the_policy_says_so,
    a_count_tells_what_a_verb_would_change,
    events_are_found_by_namespace_and_by_their_error,
    the_journal_tells_who_read_an_event_and_the_record_what_people_did,
    a_subscription_tells_when_it_moved_and_when_a_letter_died,
    a_delayed_event_makes_nobody_late,
    a_preview_of_retention_removes_nothing,
    a_rate_keeps_claims_small_and_is_lifted_in_running_workers,
);

async fn keys_that_wait_are_listed_with_what_holds_them<D: Database>() {
    for db in D::everywhere().await {
        let admin = db.posthaste().admin();
        let mut claims = db.posthaste().claims(&quick("s").after_dead(AfterDead::Block)).await.unwrap();
        let bodies =
            [("a", "bad"), ("a", "a2"), ("a", "a3"), ("b", "later"), ("b", "b2"), ("c", "bad"), ("d", "d1")];
        let ids = enqueue(&db, bodies.iter().map(|(key, body)| event(key, body)).collect()).await;
        assert_eq!(drain(&mut claims).await, ["d1"]);
        let keys = admin.blocked_keys("s", 10).await.unwrap();
        let seen: Vec<_> =
            keys.iter().map(|k| (k.key.as_str(), k.waiting.exact(), k.head, k.status)).collect();
        let expected = [
            ("a", Some(2), ids[0], DeliveryStatus::Dead),
            ("b", Some(1), ids[3], DeliveryStatus::Pending),
            ("c", Some(0), ids[5], DeliveryStatus::Dead),
        ];
        assert_eq!(seen, expected, "most first; a dead head holds its key although nothing waits yet");
        assert_eq!(keys[1].last_error.as_deref(), Some("not yet"));
        assert_eq!(keys[1].attempts, 1);
        let begun = admin.event(ids[0]).await.unwrap().event.created_at;
        assert!(keys.iter().all(|key| key.since >= begun), "since the head failed first: {keys:?}");
        assert_eq!(admin.blocked_keys("s", 2).await.unwrap().len(), 2);
        let bounded = admin.clone().counting_to(1).blocked_keys("s", 10).await.unwrap();
        assert_eq!(bounded[0].waiting.more_than(), Some(1), "looking stopped");
        assert_eq!(admin.release_key("s", "c").await.unwrap(), 1);
        assert_eq!(admin.blocked_keys("s", 10).await.unwrap().len(), 2, "a released key waits no longer");
        assert!(admin.blocked_keys("nobody", 10).await.is_err());
    }
}

async fn a_dead_letter_holds_its_key_only_where_the_policy_says_so<D: Database>() {
    let db = D::fresh().await;
    let mut claims = db.posthaste().claims(&quick("s")).await.unwrap();
    enqueue(&db, vec![event("a", "bad"), event("a", "later"), event("a", "a3")]).await;
    drain(&mut claims).await;
    let keys = db.posthaste().admin().blocked_keys("s", 10).await.unwrap();
    assert_eq!(keys.len(), 1);
    assert_eq!(
        (keys[0].status, keys[0].waiting.exact()),
        (DeliveryStatus::Pending, Some(1)),
        "behind the retry"
    );
}

async fn a_count_tells_what_a_verb_would_change<D: Database>() {
    for db in D::everywhere().await {
        let admin = db.posthaste().admin();
        let mut claims = db.posthaste().claims(&quick("s")).await.unwrap();
        let mut events: Vec<NewEvent> = (0..5).map(|n| event(&format!("k{n}"), "bad")).collect();
        events.push(event("k9", "later"));
        let ids = enqueue(&db, events).await;
        drain(&mut claims).await;
        let count = async |query: &DeliveryQuery| admin.count(query).await.unwrap().to_string();
        assert_eq!(count(&DeliveryQuery::dead("s")).await, "5");
        assert_eq!(count(&DeliveryQuery::all("s")).await, "6");
        assert_eq!(count(&DeliveryQuery::event("s", ids[0])).await, "1");
        assert_eq!(
            count(&DeliveryQuery::all("s").only(|q| q.error_contains = Some("yet".into()))).await,
            "1"
        );
        assert_eq!(count(&DeliveryQuery::dead("s").only(|q| q.key = Some("k3".into()))).await, "1");
        assert_eq!(count(&DeliveryQuery::dead("s").only(|q| q.topic = Some("other".into()))).await, "0");
        let bounded = admin.clone().counting_to(3).count(&DeliveryQuery::dead("s")).await.unwrap();
        assert_eq!(bounded.more_than(), Some(3));
        assert_eq!(admin.discard(&DeliveryQuery::dead("s")).await.unwrap(), 5, "the same that were counted");
        assert!(admin.count(&DeliveryQuery::dead("nobody")).await.is_err());
    }
}

async fn events_are_found_by_namespace_and_by_their_error<D: Database>() {
    for db in D::everywhere().await {
        let admin = db.posthaste().admin();
        let mut claims = db.posthaste().claims(&quick("s")).await.unwrap();
        enqueue(&db, vec![event("a", "bad"), event("b", "later"), event("c", "x").namespace("eu")]).await;
        drain(&mut claims).await;
        let found = async |query: EventQuery| {
            let page = admin.events(&query).await.unwrap();
            page.events.iter().map(|found| found.event.text().unwrap().to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(found(EventQuery::new(|q| q.namespace = Some("eu".into()))).await, ["x"]);
        let failed = |error: &str, status| {
            EventQuery::new(|q| {
                (q.subscription, q.status) = (Some("s".into()), status);
                q.error_contains = Some(error.into());
            })
        };
        assert_eq!(found(failed("not yet", None)).await, ["later"]);
        assert_eq!(found(failed("bad", Some(posthaste::admin::EventStatus::Dead))).await, ["bad"]);
        assert!(found(failed("good", Some(posthaste::admin::EventStatus::Dead))).await.is_empty());
        let nowhere = EventQuery::new(|q| q.error_contains = Some("x".into()));
        assert!(admin.events(&nowhere).await.unwrap_err().to_string().contains("name one"));
    }
}

async fn the_journal_tells_who_read_an_event_and_the_record_what_people_did<D: Database>() {
    for db in D::everywhere().await {
        let admin = db.posthaste().admin().acting_as("maria");
        let ledger = Ledger::default();
        let worker = rejecting(&db, quick("s").topic("orders").lanes(2), &ledger).await;
        let other = accepting(&db, quick("other").topic("elsewhere"), &ledger).await;
        let ids = enqueue(&db, vec![event("a", "fine"), event("b", "bad")]).await;
        until("one is dead", async || admin.subscription("s").await.unwrap().dead.exact() == Some(1)).await;
        let fine = admin.event(ids[0]).await.unwrap().event;
        until("it is settled", async || {
            admin.readings(&fine).await.unwrap().iter().any(|reading| reading.finished_at.is_some())
        })
        .await;
        let readings = admin.readings(&fine).await.unwrap();
        assert_eq!(readings.len(), 1, "only who wanted it: {readings:?}");
        assert_eq!(readings[0].subscription, "s");
        assert!(readings[0].worker.as_deref().is_some_and(|name| name.starts_with("worker-")));
        assert!(readings[0].claimed_at >= fine.created_at);
        assert!(admin.operations_on(ids[1]).await.unwrap().is_empty());
        admin.discard(&DeliveryQuery::event("s", ids[1])).await.unwrap();
        let deeds = admin.operations_on(ids[1]).await.unwrap();
        assert_eq!(deeds.len(), 1);
        assert_eq!((deeds[0].who.as_str(), deeds[0].verb.as_str()), ("maria", "discard"));
        worker.stop().await;
        other.stop().await;
    }
}

async fn a_subscription_tells_when_it_moved_and_when_a_letter_died<D: Database>() {
    let db = D::fresh().await;
    let admin = db.posthaste().admin();
    let ledger = Ledger::default();
    let worker = rejecting(&db, quick("s"), &ledger).await;
    let state = admin.subscription("s").await.unwrap();
    assert_eq!((state.newest_dead_at, state.lanes[0].moved_at), (None, None));
    let ids = enqueue(&db, vec![event("a", "bad")]).await;
    until("settled", async || admin.subscription("s").await.unwrap().lanes[0].moved_at.is_some()).await;
    let state = admin.subscription("s").await.unwrap();
    let enqueued = admin.event(ids[0]).await.unwrap().event.created_at;
    assert!(state.newest_dead_at.is_some_and(|at| at >= enqueued));
    worker.stop().await;
}

async fn a_delayed_event_makes_nobody_late<D: Database>() {
    let db = D::fresh().await;
    let admin = db.posthaste().admin();
    let mut claims = db.posthaste().claims(&quick("s")).await.unwrap();
    enqueue(&db, vec![event("a", "x").delay(Duration::from_secs(3600))]).await;
    drain(&mut claims).await;
    let state = admin.subscription("s").await.unwrap();
    assert_eq!((state.lag.exact(), state.delayed.exact(), state.oldest_age), (Some(1), Some(1), None));
    enqueue(&db, vec![event("b", "later")]).await;
    drain(&mut claims).await;
    assert!(admin.subscription("s").await.unwrap().oldest_age.is_some(), "a retry has waited since it came");
}

async fn a_preview_of_retention_removes_nothing<D: Database>() {
    for db in D::everywhere().await {
        let admin = db.posthaste().admin();
        let mut claims = db.posthaste().claims(&quick("s")).await.unwrap();
        let mut events: Vec<NewEvent> = (0..7).map(|n| event(&format!("k{n}"), "x")).collect();
        events.push(event("k8", "bad"));
        enqueue(&db, events).await;
        drain(&mut claims).await;
        let policy = RetentionPolicy::new(|p| (p.events_older_than, p.chunk) = (Duration::ZERO, 3));
        let preview = admin.preview_retention(&policy).await.unwrap();
        assert_eq!(preview.events, 7);
        assert!(preview.held_back.iter().any(|held| held.to_string().contains("1 dead letters")));
        assert_eq!(db.scalar("select count(*) from posthaste.events").await, 8, "all are still there");
        let done = admin.retain(&policy).await.unwrap();
        assert_eq!((done.events, &done.held_back), (7, &preview.held_back));
        assert_eq!(admin.preview_retention(&policy).await.unwrap().events, 0);
    }
}

/// That the rate itself is kept is proved beside the code, on a clock that the test moves.
async fn a_rate_keeps_claims_small_and_is_lifted_in_running_workers<D: Database>() {
    for order in [Order::Key, Order::None, Order::Strict] {
        let db = D::fresh().await;
        let admin = db.posthaste().admin();
        let ledger = Ledger::default();
        let worker = accepting(&db, quick("s").order(order).settings(|s| s.rate = 50), &ledger).await;
        enqueue(&db, (0..40).map(|n| event(&format!("k{n}"), "x")).collect()).await;
        ledger.wait_for(40).await;
        until("settled", async || admin.subscription("s").await.unwrap().lag.is_zero()).await;
        assert!(worker.counters().batches() >= 4, "{order:?}: not more than 10 at once");
        let rate =
            async |rate| admin.change_settings("s", SettingsChange::new(|s| s.rate = Some(rate))).await;
        assert!(rate(1_000_001).await.unwrap_err().to_string().contains("rate 1000001"));
        rate(1).await.unwrap();
        enqueue(&db, (0..100).map(|n| event(&format!("k{n}"), "x")).collect()).await;
        ledger.wait_for(41).await;
        rate(0).await.unwrap();
        ledger.wait_for(140).await;
        worker.stop().await;
    }
}
