//! Looking at subscriptions and events, and the verbs of a person.

#[macro_use]
mod admin_common;

use std::sync::Arc;
use std::time::Duration;

use admin_common::*;
use posthaste::admin::{DeliveryQuery, EventQuery, EventStatus, SettingsChange};
use posthaste::{
    AfterDead, ClaimBy, DeliveryStatus, Error, Event, NewEvent, Order, Outcome, Start, Subscription,
};
use posthaste_testkit::{Ledger, TestDatabase, servers};

on_every_database!(
    the_view_is_right_while_lanes_are_split,
    a_subscription_says_how_it_stands,
    what_a_worker_holds_is_in_flight_and_not_yet_delivered,
    the_lag_counts_what_each_lane_has_not_read,
    events_are_found_by_what_they_are_and_how_they_stand,
    pages_follow_each_other_and_say_how_far_they_looked,
    a_dead_event_that_is_retried_starts_anew_and_remembers,
    revived_events_of_one_key_go_in_order_again,
    a_blocked_key_goes_on_when_its_head_is_skipped_discarded_or_released,
    verbs_reach_all_that_match_and_nothing_else,
    a_paused_subscription_waits_and_goes_on,
    changed_settings_take_effect_without_a_restart_and_are_checked_as_a_whole,
    a_subscription_is_deleted_only_when_nobody_works_on_it,
    the_view_knows_an_open_batch_a_held_one_and_what_was_before_the_start,
);

async fn a_subscription_says_how_it_stands<D: Database>() {
    for db in D::everywhere().await {
        let admin = db.posthaste().admin();
        let subscription = quick("s").topic("orders").after_dead(AfterDead::Block);
        let mut claims = db.posthaste().claims(&subscription).await.unwrap();
        let bodies = [("a", "bad"), ("a", "a2"), ("a", "a3"), ("b", "later"), ("b", "b2"), ("c", "c1")];
        enqueue(&db, bodies.iter().map(|(key, body)| event(key, body)).collect()).await;
        enqueue(&db, vec![event("d", "d1").delay(Duration::from_secs(3600))]).await;
        assert_eq!(admin.subscription("s").await.unwrap().lag.exact(), Some(7), "nothing is claimed yet");
        assert_eq!(drain(&mut claims).await, ["c1"]);
        enqueue(&db, vec![event("e", "e1"), event("e", "e2"), NewEvent::bytes("other", b"x".to_vec())]).await;
        let state = admin.subscription("s").await.unwrap();
        assert_eq!(state.dead.to_string(), "1");
        assert_eq!(state.parked.to_string(), "3", "two behind the dead letter, one behind the retry");
        assert_eq!(state.parked_keys.to_string(), "2");
        assert_eq!(state.retrying.to_string(), "1");
        assert_eq!(state.delayed.to_string(), "1");
        assert_eq!(state.in_flight.to_string(), "0");
        assert_eq!(
            state.lag.to_string(),
            "7",
            "later, d1, three parked, e1, e2; not the dead, not the other topic"
        );
        assert!(state.oldest_age.is_some());
        assert!(state.last_error.is_some());
        assert!(state.oldest_retry_due.is_some_and(|due| due > chrono::Utc::now()));
        assert_eq!(state.lanes.len(), 1);
        assert!(state.lanes[0].held_by.is_some(), "the claimer holds its lane");
        assert_eq!(state.workers, [state.lanes[0].held_by.clone().unwrap()]);
        assert_eq!(state.filter.topics, ["orders"]);
        let bounded = admin.clone().counting_to(2).subscription("s").await.unwrap();
        assert_eq!(bounded.parked.to_string(), "more than 2");
        assert_eq!(bounded.dead.exact(), Some(1));
        assert_eq!(admin.subscriptions().await.unwrap().len(), 1);
        let missing = admin.subscription("nobody").await.unwrap_err();
        assert!(matches!(missing, Error::NoSuchSubscription(_)));
    }
}

async fn what_a_worker_holds_is_in_flight_and_not_yet_delivered<D: Database>() {
    let db = D::fresh().await;
    let admin = db.posthaste().admin();
    let (open, gate) = tokio::sync::watch::channel(false);
    let handler = move |_: Arc<Event>| {
        let mut gate = gate.clone();
        async move {
            gate.wait_for(|open| *open).await.unwrap();
        }
    };
    let worker = db.posthaste().handler(quick("s"), handler).start().await.unwrap();
    // In one page: a third page would wait until an earlier one is settled.
    let ids = enqueue(&db, ["1", "2", "3"].map(|body| event("k", body)).into()).await;
    until("all claimed", async || admin.subscription("s").await.unwrap().in_flight.exact() == Some(3)).await;
    assert_eq!(admin.subscription("s").await.unwrap().lag.exact(), Some(3));
    assert_eq!(status(&admin, ids[0], "s").await, Some(EventStatus::Processing));
    let query = DeliveryQuery::all("s");
    assert_eq!(admin.skip(&query).await.unwrap(), 0, "what a worker holds is not touched");
    open.send(true).unwrap();
    until("delivered", async || admin.subscription("s").await.unwrap().lag.is_zero()).await;
    assert_eq!(status(&admin, ids[0], "s").await, Some(EventStatus::Delivered));
    worker.stop().await;
}

async fn the_lag_counts_what_each_lane_has_not_read<D: Database>() {
    let db = D::fresh().await;
    let admin = db.posthaste().admin();
    let ledger = Ledger::default();
    let worker = accepting(&db, quick("s").lanes(4), &ledger).await;
    let events: Vec<_> = (0..40).map(|n| event(&format!("k{n}"), "x")).collect();
    enqueue(&db, events.clone()).await;
    ledger.wait_for(40).await;
    worker.stop().await;
    assert!(admin.subscription("s").await.unwrap().lag.is_zero());
    enqueue(&db, events).await;
    assert_eq!(admin.subscription("s").await.unwrap().lag.exact(), Some(40));
    assert_eq!(admin.clone().counting_to(10).subscription("s").await.unwrap().lag.exact(), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_lag_knows_an_event_that_committed_late() {
    let db = TestDatabase::new().await;
    let admin = db.posthaste.admin();
    let mut late = db.pool.begin().await.unwrap();
    db.posthaste.enqueue(&mut late, event("k", "late")).await.unwrap();
    let mut claims = db.posthaste.claims(&quick("s")).await.unwrap();
    enqueue_numbered(&db, "k", 1..=2).await;
    assert_eq!(drain(&mut claims).await, ["k001", "k002"]);
    assert!(admin.subscription("s").await.unwrap().lag.is_zero());
    late.commit().await.unwrap();
    assert_eq!(admin.subscription("s").await.unwrap().lag.exact(), Some(1));
    assert_eq!(drain(&mut claims).await, ["late"]);
    assert!(admin.subscription("s").await.unwrap().lag.is_zero());
}

async fn events_are_found_by_what_they_are_and_how_they_stand<D: Database>() {
    let db = D::fresh().await;
    let admin = db.posthaste().admin();
    let tenant = uuid::Uuid::now_v7();
    let mut claims = db.posthaste().claims(&quick("s").topic("orders")).await.unwrap();
    let first = event("a", "needle one").event_type("order.created").aggregate("order", "7").tenant(tenant);
    let ids = enqueue(&db, vec![first, event("b", "bad"), event("c", "later"), event("b", "b2")]).await;
    enqueue(&db, vec![NewEvent::bytes("other", b"needle two".to_vec())]).await;
    drain(&mut claims).await;
    enqueue(&db, vec![event("d", "fresh")]).await;
    let found = async |narrow: &dyn Fn(&mut EventQuery)| {
        let page = admin.events(&EventQuery::new(narrow)).await.unwrap();
        page.events.iter().map(|found| found.event.text().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(
        found(&|q| q.text = Some("needle".into())).await,
        ["needle two", "needle one"],
        "newest first"
    );
    assert_eq!(found(&|q| q.topic = Some("other".into())).await, ["needle two"]);
    assert_eq!(found(&|q| q.event_type = Some("order.created".into())).await, ["needle one"]);
    assert_eq!(found(&|q| q.aggregate_id = Some("7".into())).await, ["needle one"]);
    assert_eq!(found(&|q| q.tenant_id = Some(tenant)).await, ["needle one"]);
    assert_eq!(found(&|q| q.id = Some(ids[1])).await, ["bad"]);
    let in_s = |status: EventStatus| {
        move |q: &mut EventQuery| {
            (q.subscription, q.status, q.oldest_first) = (Some("s".into()), Some(status), true);
        }
    };
    assert_eq!(found(&in_s(EventStatus::Dead)).await, ["bad"]);
    assert_eq!(found(&in_s(EventStatus::Pending)).await, ["later", "fresh"]);
    assert_eq!(found(&in_s(EventStatus::Delivered)).await, ["needle one", "b2"]);
    assert!(found(&in_s(EventStatus::Processing)).await.is_empty());
    let soon = chrono::Utc::now() + chrono::Duration::seconds(60);
    assert!(found(&|q| q.since = Some(soon)).await.is_empty());
    assert_eq!(found(&|q| (q.until, q.key) = (Some(soon), Some("a".into()))).await, ["needle one"]);
    assert!(admin.events(&EventQuery::new(|q| q.limit = 501)).await.is_err());
    assert!(admin.events(&EventQuery::new(|q| q.status = Some(EventStatus::Dead))).await.is_err());
}

async fn pages_follow_each_other_and_say_how_far_they_looked<D: Database>() {
    let db = D::fresh().await;
    let admin = db.posthaste().admin();
    enqueue_numbered(&db, "k", 1..=25).await;
    for oldest_first in [true, false] {
        let (mut texts, mut after) = (Vec::new(), None);
        loop {
            let page = EventQuery::new(|q| (q.limit, q.after, q.oldest_first) = (10, after, oldest_first));
            let page = admin.events(&page).await.unwrap();
            texts.extend(page.events.iter().map(|found| found.event.text().unwrap().to_owned()));
            after = page.next;
            if after.is_none() {
                break;
            }
        }
        assert_eq!(texts.len(), 25);
        assert!(if oldest_first { texts.is_sorted() } else { texts.iter().rev().is_sorted() });
    }
    let bounded = EventQuery::new(|q| (q.look_at, q.text) = (5, Some("k001".into())));
    let page = admin.events(&bounded).await.unwrap();
    assert!(page.events.is_empty() && page.next.is_some());
    assert_eq!(page.looked_at, 5);
}

async fn a_dead_event_that_is_retried_starts_anew_and_remembers<D: Database>() {
    for claim_by in [ClaimBy::Batch, ClaimBy::Event] {
        let db = D::fresh().await;
        let admin = db.posthaste().admin().acting_as("alice");
        let ledger = Ledger::default();
        let worker = rejecting(&db, quick("s").claim_by(claim_by), &ledger).await;
        let ids = enqueue(&db, vec![event("a", "bad"), event("b", "b1")]).await;
        until("dead", async || status(&admin, ids[0], "s").await == Some(EventStatus::Dead)).await;
        let one = DeliveryQuery::event("s", ids[0]);
        assert_eq!(admin.retry(&one).await.unwrap(), 1);
        until("dead again", async || {
            let state = state(&admin, ids[0], "s").await.unwrap();
            state.status == EventStatus::Dead && state.history.len() == 3
        })
        .await;
        let outcomes: Vec<String> =
            state(&admin, ids[0], "s").await.unwrap().history.into_iter().map(|a| a.outcome).collect();
        assert_eq!(outcomes, ["dead", "revived", "dead"]);
        assert_eq!(admin.edit_and_retry("s", ids[0], "good").await.unwrap(), 1);
        ledger.wait_for(2).await;
        assert!(ledger.texts().contains(&"good".to_owned()), "the new body was delivered");
        until("settled", async || status(&admin, ids[0], "s").await == Some(EventStatus::Delivered)).await;
        assert_eq!(
            admin.event(ids[0]).await.unwrap().event.text(),
            Some("bad"),
            "the log keeps the original"
        );
        let done = admin.operations(10).await.unwrap();
        assert_eq!(done.iter().map(|o| o.verb.as_str()).collect::<Vec<_>>(), ["edit and retry", "retry"]);
        assert!(done.iter().all(|o| o.who == "alice" && o.event == Some(ids[0])));
        assert_eq!(admin.retry(&one).await.unwrap(), 0, "there is nothing to retry any more");
        worker.stop().await;
    }
}

async fn revived_events_of_one_key_go_in_order_again<D: Database>() {
    let db = D::fresh().await;
    let admin = db.posthaste().admin();
    let mut claims = db.posthaste().claims(&quick("s")).await.unwrap();
    let ids = enqueue(&db, ["bad1", "bad2", "later", "bad3"].map(|body| event("k", body)).to_vec()).await;
    drain(&mut claims).await;
    assert_eq!(status(&admin, ids[1], "s").await, Some(EventStatus::Dead));
    assert!(!state(&admin, ids[2], "s").await.unwrap().parked, "after dead letters the key went on");
    assert_eq!(
        admin.retry(&DeliveryQuery::dead("s")).await.unwrap(),
        2,
        "bad3 waits behind the retry and is not dead"
    );
    let mut parked = Vec::new();
    for id in &ids {
        parked.push(state(&admin, *id, "s").await.unwrap().parked);
    }
    assert_eq!(parked, [false, true, true, true], "only the first of the key is due");
    let page = claims.claim(10).await.unwrap();
    assert_eq!(page.iter().map(|c| c.event().text().unwrap()).collect::<Vec<_>>(), ["bad1"]);
    for claimed in page {
        claims.settle(claimed, Outcome::Delivered).await.unwrap();
    }
    let page = claims.claim(10).await.unwrap();
    assert_eq!(page.iter().map(|c| c.event().text().unwrap()).collect::<Vec<_>>(), ["bad2"]);
    for claimed in page {
        claims.settle(claimed, Outcome::Delivered).await.unwrap();
    }
}

async fn a_blocked_key_goes_on_when_its_head_is_skipped_discarded_or_released<D: Database>() {
    for verb in ["skip", "discard", "release"] {
        let db = D::fresh().await;
        let admin = db.posthaste().admin();
        let subscription = quick("s").after_dead(AfterDead::Block);
        let mut claims = db.posthaste().claims(&subscription).await.unwrap();
        let ids =
            enqueue(&db, vec![event("k", "bad"), event("k", "k2"), event("k", "k3"), event("j", "j1")]).await;
        assert_eq!(drain(&mut claims).await, ["j1"], "the key is blocked");
        let one = DeliveryQuery::event("s", ids[0]);
        let changed = match verb {
            "skip" => admin.skip(&one).await.unwrap(),
            "discard" => admin.discard(&one).await.unwrap(),
            _ => admin.release_key("s", "k").await.unwrap(),
        };
        assert_eq!(changed, 1, "{verb}");
        assert_eq!(drain(&mut claims).await, ["k2", "k3"], "{verb}");
        let expected = if verb == "release" { EventStatus::Dead } else { EventStatus::Delivered };
        assert_eq!(status(&admin, ids[0], "s").await, Some(expected), "{verb}");
        enqueue(&db, vec![event("k", "k4")]).await;
        assert_eq!(drain(&mut claims).await, ["k4"], "{verb}: the key is free for good");
        let operation = admin.operations(1).await.unwrap().remove(0);
        assert_eq!((operation.event, operation.verb.starts_with(verb)), (Some(ids[0]), true));
        assert_eq!(operation.detail["last_error"], "bad body", "what was taken away is on record");
    }
}

async fn verbs_reach_all_that_match_and_nothing_else<D: Database>() {
    let db = D::fresh().await;
    let admin = db.posthaste().admin();
    let mut claims = db.posthaste().claims(&quick("s")).await.unwrap();
    let bad = |n: u32| event(&format!("k{n}"), &format!("bad{n}"));
    let mut events: Vec<NewEvent> = (0..1_500).map(bad).collect();
    events.push(NewEvent::bytes("other", b"bad".to_vec()).key("x"));
    events.push(event("y", "later"));
    let ids = enqueue(&db, events).await;
    drop(claims.claim(5_000).await.unwrap());
    db.run(
        "update posthaste.deliveries as d set token = null, locked_until = null, last_error = 'bad body',
           status = case when e.key = 'y' then 'pending' else 'dead' end
         from posthaste.events e where e.seq = d.seq",
    )
    .await;
    assert_eq!(admin.subscription("s").await.unwrap().dead.exact(), Some(1_501));
    let limited = DeliveryQuery::dead("s").only(|q| (q.topic, q.limit) = (Some("orders".into()), Some(10)));
    assert_eq!(admin.discard(&limited).await.unwrap(), 10);
    assert_eq!(
        admin.discard(&DeliveryQuery::dead("s").only(|q| q.key = Some("k20".into()))).await.unwrap(),
        1
    );
    assert_eq!(
        admin
            .discard(&DeliveryQuery::dead("s").only(|q| q.error_contains = Some("odd".into())))
            .await
            .unwrap(),
        0
    );
    let orders = DeliveryQuery::dead("s")
        .only(|q| (q.topic, q.error_contains) = (Some("orders".into()), Some("bad bo".into())));
    assert_eq!(admin.discard(&orders).await.unwrap(), 1_489);
    assert_eq!(
        admin.discard(&DeliveryQuery::event("s", ids[1_501])).await.unwrap(),
        0,
        "only dead ones are discarded"
    );
    assert_eq!(admin.skip(&DeliveryQuery::event("s", ids[1_501])).await.unwrap(), 1);
    let pending = DeliveryQuery::all("s").only(|q| q.status = Some(DeliveryStatus::Pending));
    assert_eq!(admin.skip(&pending).await.unwrap(), 0);
    assert_eq!(admin.skip(&DeliveryQuery::all("s")).await.unwrap(), 1, "the other topic's");
}

async fn a_paused_subscription_waits_and_goes_on<D: Database>() {
    let db = D::fresh().await;
    let admin = db.posthaste().admin();
    let ledger = Ledger::default();
    let worker = accepting(&db, quick("s"), &ledger).await;
    enqueue_numbered(&db, "k", 1..=1).await;
    ledger.wait_for(1).await;
    assert!(admin.pause("s").await.unwrap());
    assert!(!admin.pause("s").await.unwrap(), "it is paused already");
    assert!(admin.subscription("s").await.unwrap().paused_since.is_some());
    until("the lane is given back", async || {
        admin.subscription("s").await.unwrap().lanes[0].held_by.is_none()
    })
    .await;
    enqueue_numbered(&db, "k", 2..=3).await;
    assert_eq!(ledger.len(), 1);
    assert_eq!(admin.subscription("s").await.unwrap().lag.exact(), Some(2));
    assert!(admin.resume("s").await.unwrap());
    ledger.wait_for(3).await;
    worker.stop().await;
}

async fn changed_settings_take_effect_without_a_restart_and_are_checked_as_a_whole<D: Database>() {
    let db = D::fresh().await;
    let admin = db.posthaste().admin();
    let handler = |_: Arc<Event>| async { Outcome::retry("never") };
    let subscription = quick("s").settings(|s| s.max_attempts = 10_000);
    let worker = db.posthaste().handler(subscription, handler).start().await.unwrap();
    let ids = enqueue(&db, vec![event("k", "x")]).await;
    until("retrying", async || state(&admin, ids[0], "s").await.unwrap().attempts > 2).await;
    let wrong = SettingsChange::new(|s| s.base_delay = Some(Duration::from_secs(3600)));
    let refused = admin.change_settings("s", wrong).await.unwrap_err();
    assert!(refused.to_string().contains("base_delay"), "{refused}: the declared max_delay is shorter");
    let change = SettingsChange::new(|s| s.max_attempts = Some(3));
    admin.change_settings("s", change).await.unwrap();
    let changed = std::time::Instant::now();
    until("dead", async || status(&admin, ids[0], "s").await == Some(EventStatus::Dead)).await;
    assert!(changed.elapsed() < Duration::from_secs(5));
    let now = admin.subscription("s").await.unwrap();
    assert_eq!(
        (now.settings.max_attempts, now.overridden.as_slice()),
        (3, ["max_attempts".to_owned()].as_slice())
    );
    admin.change_settings("s", SettingsChange::new(|s| s.batch_size = Some(7))).await.unwrap();
    assert_eq!(admin.subscription("s").await.unwrap().settings.max_attempts, 3, "the other override stays");
    admin.reset_only("s", &["max_attempts"]).await.unwrap();
    let left = admin.subscription("s").await.unwrap();
    assert_eq!(
        (left.settings.max_attempts, left.settings.batch_size, left.overridden),
        (10_000, 7, vec!["batch_size".to_owned()])
    );
    assert!(admin.reset_only("s", &["no_such"]).await.is_err());
    admin.reset_settings("s").await.unwrap();
    assert!(admin.subscription("s").await.unwrap().overridden.is_empty());
    worker.stop().await;
}

async fn a_subscription_is_deleted_only_when_nobody_works_on_it<D: Database>() {
    let db = D::fresh().await;
    let admin = db.posthaste().admin();
    let ledger = Ledger::default();
    let worker = rejecting(&db, quick("s"), &ledger).await;
    enqueue(&db, vec![event("k", "bad"), event("k", "k1")]).await;
    ledger.wait_for(1).await;
    until("dead", async || admin.subscription("s").await.unwrap().dead.exact() == Some(1)).await;
    let refused = admin.delete_subscription("s").await.unwrap_err();
    assert!(refused.to_string().contains("stop it first"), "{refused}");
    worker.stop().await;
    admin.delete_subscription("s").await.unwrap();
    assert!(matches!(admin.subscription("s").await, Err(Error::NoSuchSubscription(_))));
    for table in ["select count(*) from posthaste.batches", "select count(*) from posthaste.deliveries"] {
        assert_eq!(db.scalar(table).await, 0, "{table}");
    }
}

// --- the view

async fn seen(db: &TestDatabase, sql: &'static str) -> Vec<String> {
    sqlx::query_scalar(sql).fetch_all(&db.pool).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_operational_queries_run_on_the_view() {
    for server in servers() {
        let db = TestDatabase::on(&server).await;
        for claim_by in [ClaimBy::Batch, ClaimBy::Event] {
            let subscription = quick(&format!("s-{}", claim_by.as_str())).claim_by(claim_by);
            let mut claims = db.posthaste.claims(&subscription).await.unwrap();
            if claim_by == ClaimBy::Batch {
                enqueue(&db, ["bad", "later", "plain"].map(|body| event(body, body)).to_vec()).await;
            }
            drain(&mut claims).await;
        }
        enqueue(&db, vec![NewEvent::bytes("orders", vec![0xff]).content_type("application/json")]).await;
        let troubled = "select subscription || ' ' || key from posthaste.event_status
            where status in ('pending', 'dead') and attempts > 0 order by next_attempt_at, subscription";
        assert_eq!(
            seen(&db, troubled).await,
            ["s-batch bad", "s-event bad", "s-batch later", "s-event later"]
        );
        let due = "select key from posthaste.event_status
            where status = 'pending' and attempts > 0 and next_attempt_at <= now()";
        assert!(seen(&db, due).await.is_empty());
        db.run("update posthaste.deliveries set next_attempt_at = now() - interval '1 second'").await;
        assert_eq!(seen(&db, due).await, ["later", "later"]);
        assert!(
            !seen(&db, "select payload from posthaste.event_status").await.is_empty(),
            "odd bytes do not break it"
        );
        let counted =
            "select status || ' ' || count(*) from posthaste.event_status group by status order by status";
        assert_eq!(seen(&db, counted).await, ["dead 2", "delivered 2", "pending 4"]);
    }
}

async fn the_view_knows_an_open_batch_a_held_one_and_what_was_before_the_start<D: Database>() {
    let db = D::fresh().await;
    let admin = db.posthaste().admin();
    let before = enqueue_numbered(&db, "k", 1..=2).await;
    let handler = |event: Arc<Event>| async move {
        match event.text() {
            Some("k003") => Outcome::Delivered,
            _ => Outcome::retry_after(Duration::from_secs(3600), "not yet"),
        }
    };
    let strict = quick("strict").order(Order::Strict).start(Start::Now);
    let worker = db.posthaste().handler(strict, handler).start().await.unwrap();
    let after = enqueue(&db, ["k003", "k004", "k005"].map(|body| event("k", body)).to_vec()).await;
    until("held", async || state(&admin, after[1], "strict").await.is_some_and(|s| s.attempts == 1)).await;
    let mut states = Vec::new();
    for id in before.iter().chain(&after) {
        states.push(state(&admin, *id, "strict").await.map(|s| (s.status, s.attempts)));
    }
    use EventStatus::{Delivered, Pending, Processing};
    assert_eq!(states, [None, None, Some((Delivered, 0)), Some((Pending, 1)), Some((Processing, 0))]);
    let state = admin.subscription("strict").await.unwrap();
    assert_eq!(state.lag.exact(), Some(2), "the one held and the one behind it");
    assert_eq!(state.last_error.as_deref(), Some("not yet"));
    worker.stop().await;
}

async fn the_view_is_right_while_lanes_are_split<D: Database>() {
    let db = D::fresh().await;
    let admin = db.posthaste().admin();
    let of_lanes = |lanes: u16| quick("s").lanes(lanes).settings(|s| s.lease = Duration::from_secs(1));
    let ledger = Ledger::default();
    let worker = accepting(&db, of_lanes(2), &ledger).await;
    let keys: Vec<String> = (0..8).map(|n| format!("k{n}")).collect();
    let round = || keys.iter().map(|key| event(key, key)).collect::<Vec<_>>();
    let first = enqueue(&db, round()).await;
    ledger.wait_for(8).await;
    worker.stop().await;
    let second = enqueue(&db, round()).await;
    // Declares the split and reads nothing yet: the old lanes are before their end.
    let claims = db.posthaste().claims(&of_lanes(3)).await.unwrap();
    let third = enqueue(&db, round()).await;
    for (ids, expected) in
        [(&first, EventStatus::Delivered), (&second, EventStatus::Pending), (&third, EventStatus::Pending)]
    {
        for id in ids {
            assert_eq!(status(&admin, *id, "s").await, Some(expected), "{ids:?}");
        }
    }
    assert_eq!(admin.subscription("s").await.unwrap().lag.exact(), Some(16));
    drop(claims);
    let worker = accepting(&db, of_lanes(3), &ledger).await;
    until("all done", async || admin.subscription("s").await.unwrap().lag.is_zero()).await;
    worker.stop().await;
    for id in first.iter().chain(&second).chain(&third) {
        assert_eq!(status(&admin, *id, "s").await, Some(EventStatus::Delivered));
    }
    assert_eq!(ledger.len(), 24);
}

#[tokio::test(flavor = "multi_thread")]
async fn questions_about_the_undelivered_do_not_walk_over_the_delivered() {
    let db = TestDatabase::new().await;
    let mut claims = db.posthaste.claims(&Subscription::new("s").unwrap()).await.unwrap();
    sqlx::query("select posthaste.enqueue(topic => 'orders', payload => '1') from generate_series(1, 20000)")
        .execute(&db.pool)
        .await
        .unwrap();
    let mut delivered = 0;
    while delivered < 20_000 {
        let page = claims.claim(10_000).await.unwrap();
        delivered += page.len();
        drop(page);
        db.run("delete from posthaste.deliveries").await;
    }
    // Transactions of other tests that were open when the mark was taken lie anywhere: a mark without them is needed.
    until("a mark that nothing reaches below", async || {
        enqueue(&db, vec![event("k", "x")]).await;
        drain(&mut claims).await;
        db.scalar("select min(unseen_after) from posthaste.positions").await >= 20_000
    })
    .await;
    db.run("analyze").await;
    let walked = async |condition: &str| {
        let sql =
            format!("explain (analyze, format json) select * from posthaste.event_status where {condition}");
        let plan: serde_json::Value =
            sqlx::query_scalar(sqlx::AssertSqlSafe(sql)).fetch_one(&db.pool).await.unwrap();
        rows_of_events(&plan[0]["Plan"])
    };
    for condition in [
        "status = 'dead'",
        "status = 'pending'",
        "status in ('pending', 'dead') and attempts > 0 order by next_attempt_at",
        "status = 'pending' and attempts > 0 and next_attempt_at <= now()",
        "seq = 17",
    ] {
        let rows = walked(condition).await;
        assert!(rows <= 10.0, "{condition}: {rows} rows of events");
    }
}

/// Rows read from the table of events, those a filter threw away included.
fn rows_of_events(plan: &serde_json::Value) -> f64 {
    let number = |name: &str| plan[name].as_f64().unwrap_or(0.0);
    let own = match plan["Relation Name"] == "events" {
        true => {
            let rows = number("Actual Rows")
                + number("Rows Removed by Filter")
                + number("Rows Removed by Index Recheck");
            rows * number("Actual Loops")
        }
        false => 0.0,
    };
    own + plan["Plans"].as_array().into_iter().flatten().map(rows_of_events).sum::<f64>()
}
