//! Reading: filters, where a subscription begins, independence, delayed events.

use std::time::Duration;

use chrono::Utc;
use posthaste::{ClaimBy, NewEvent, Order, Start};
use uuid::Uuid;

use super::{Backend, Script, event, quick, until};

fn of_topic(topic: &str, body: &str) -> NewEvent {
    NewEvent::bytes(topic, body.as_bytes().to_vec()).key("k")
}

/// Each filter alone, and two together.
pub async fn a_filter_selects_by_namespace_topic_type_and_tenant(db: &impl Backend) {
    let (ours, theirs) = (Uuid::now_v7(), Uuid::now_v7());
    let subscriptions = [
        (quick("namespace").namespace("shop"), vec!["1", "2", "3"]),
        (quick("topic").topic("a").topic("c"), vec!["1", "3", "4"]),
        (quick("type").event_type("made"), vec!["1", "5"]),
        (quick("tenant").tenant(ours).order(Order::None), vec!["2", "4"]),
        (quick("both").topic("a").namespace("shop").claim_by(ClaimBy::Event), vec!["1", "3"]),
        (quick("all"), vec!["1", "2", "3", "4", "5"]),
    ];
    db.commit(vec![
        of_topic("a", "1").namespace("shop").event_type("made").tenant(theirs),
        of_topic("b", "2").namespace("shop").tenant(ours),
        of_topic("a", "3").namespace("shop").event_type("sent"),
        of_topic("c", "4").tenant(ours),
        of_topic("b", "5").event_type("made"),
    ])
    .await;
    for (subscription, expected) in subscriptions {
        let script = Script::accepting();
        let name = subscription.name().to_string();
        let worker = db.posthaste().handler(subscription, script.clone()).start().await.expect("start");
        script.accepted.wait_for(expected.len()).await;
        // A later event that all of them want shows that nothing else was in between.
        let end = of_topic("a", "end").namespace("shop").event_type("made").tenant(ours);
        db.commit(vec![end]).await;
        script.accepted.wait_for(expected.len() + 1).await;
        worker.stop().await;
        let mut texts = script.attempts.texts();
        texts.retain(|text| text != "end");
        texts.sort();
        assert_eq!(texts, expected, "{name}");
    }
}

/// What was claimed stays claimed; what comes later is chosen by the new filter.
pub async fn a_changed_filter_decides_about_what_is_claimed_later(db: &impl Backend) {
    let failing = Script::new(|_, _| posthaste::Outcome::retry_after(Duration::from_millis(50), "not yet"));
    let worker = db.posthaste().handler(quick("s").topic("a"), failing.clone()).start().await.expect("start");
    db.commit(vec![of_topic("a", "old a"), of_topic("b", "old b")]).await;
    failing.attempts.wait_for(1).await;
    until("the failure is recorded", async || !db.deliveries("s").await.is_empty()).await;
    worker.stop().await;

    let script = Script::accepting();
    let worker = db.posthaste().handler(quick("s").topic("b"), script.clone()).start().await.expect("start");
    db.commit(vec![of_topic("a", "new a"), of_topic("b", "new b")]).await;
    until("the new one has arrived", async || script.accepted.texts().contains(&"new b".to_owned())).await;
    script.accepted.wait_for(2).await;
    worker.stop().await;
    let mut texts = script.accepted.texts();
    texts.retain(|text| text != "old b");
    assert_eq!(texts, ["old a", "new b"], "the old event of the old topic is still delivered");
}

/// A worker that runs on must not pass over what the subscription wants now.
pub async fn a_filter_changed_by_another_process_holds_for_a_running_worker(db: &impl Backend) {
    for order in [Order::Key, Order::None] {
        let (name, other) = (format!("s-{}", order.as_str()), db.another().await);
        let script = Script::accepting();
        let first = quick(&name).order(order).topic("a").start(Start::Now);
        let running = db.posthaste().handler(first, script.clone()).start().await.expect("start");
        db.commit(vec![of_topic("a", "1")]).await;
        script.accepted.wait_for(1).await;
        let second = quick(&name).order(order).topic("b").start(Start::Now);
        let newcomer = other.handler(second, script.clone()).start().await.expect("start");
        db.commit(vec![of_topic("a", "2"), of_topic("b", "3")]).await;
        db.commit(vec![of_topic("b", "4")]).await;
        script.accepted.wait_for(3).await;
        running.stop().await;
        newcomer.stop().await;
        let mut texts = script.accepted.texts();
        texts.sort();
        assert_eq!(texts, ["1", "3", "4"], "{order:?}");
    }
}

/// At the beginning, now, at a time, or with an event.
pub async fn a_new_subscription_begins_where_it_says(db: &impl Backend) {
    db.commit(vec![event("k", "1"), event("k", "2")]).await;
    tokio::time::sleep(Duration::from_millis(20)).await;
    let between = Utc::now();
    tokio::time::sleep(Duration::from_millis(20)).await;
    let third = db.commit(vec![event("k", "3"), event("k", "4")]).await[0].id;
    let missing = posthaste::EventId(Uuid::now_v7());
    let starts = [
        ("beginning", Start::Beginning, vec!["1", "2", "3", "4", "end"]),
        ("time", Start::Time(between), vec!["3", "4", "end"]),
        ("event", Start::Event(third), vec!["3", "4", "end"]),
        ("past", Start::Time(between - Duration::from_secs(3600)), vec!["1", "2", "3", "4", "end"]),
        ("now", Start::Now, vec!["end"]),
    ];
    let mut workers = Vec::new();
    for (name, start, expected) in starts {
        let script = Script::accepting();
        let subscription = quick(name).start(start);
        let worker = db.posthaste().handler(subscription, script.clone()).start().await.expect("start");
        workers.push((name, worker, script, expected));
    }
    let refused =
        db.posthaste().handler(quick("x").start(Start::Event(missing)), Script::accepting()).start().await;
    assert_eq!(refused.err().map(|error| error.kind()), Some(posthaste::ErrorKind::NotFound));
    db.commit(vec![event("k", "end")]).await;
    for (name, worker, script, expected) in workers {
        script.accepted.wait_for(expected.len()).await;
        worker.stop().await;
        assert_eq!(script.accepted.texts(), expected, "{name}");
    }
}

/// A time at which the log was empty is before everything that comes.
pub async fn a_start_by_time_on_an_empty_log_misses_nothing(db: &impl Backend) {
    let script = Script::accepting();
    let subscription = quick("s").start(Start::Time(Utc::now()));
    let worker = db.posthaste().handler(subscription, script.clone()).start().await.expect("start");
    db.commit(vec![event("k", "very first")]).await;
    db.commit(vec![event("k", "second")]).await;
    script.accepted.wait_for(2).await;
    worker.stop().await;
    assert_eq!(script.accepted.texts(), ["very first", "second"]);
}

/// One fails for ever, the other goes on.
pub async fn subscriptions_are_independent(db: &impl Backend) {
    let (bad, good) = (Script::new(|_, _| posthaste::Outcome::retry("never")), Script::accepting());
    let failing = db.posthaste().handler(quick("bad").order(Order::Strict), bad.clone()).start().await;
    let working = db.posthaste().handler(quick("good"), good.clone()).start().await;
    db.commit((0..50).map(|n| event("k", &format!("{n:02}"))).collect()).await;
    good.accepted.wait_for(50).await;
    bad.attempts.wait_for(2).await;
    for worker in [failing, working] {
        worker.expect("start").stop().await;
    }
    assert!(good.accepted.texts().is_sorted() && bad.accepted.is_empty());
}

/// A delayed event waits for its time, outside the order of its key.
pub async fn delayed_events_are_not_early_and_do_not_hold_their_key(db: &impl Backend) {
    for (name, order, claim_by) in [
        ("key", Order::Key, ClaimBy::Batch),
        ("event", Order::Key, ClaimBy::Event),
        ("none", Order::None, ClaimBy::Batch),
        ("strict", Order::Strict, ClaimBy::Batch),
    ] {
        let script = Script::new(|event, _| {
            let early = event.available_at.is_some_and(|due| due > Utc::now() + Duration::from_millis(1));
            if early { posthaste::Outcome::dead("early") } else { posthaste::Outcome::Delivered }
        });
        let subscription = quick(name).order(order).claim_by(claim_by).start(Start::Now);
        let worker = db.posthaste().handler(subscription, script.clone()).start().await.expect("start");
        let soon = Utc::now() + Duration::from_millis(700);
        db.commit(vec![
            event("k", "delayed").delay(Duration::from_millis(600)),
            event("k", "later").available_at(soon),
            event("k", "past").available_at(Utc::now() - Duration::from_secs(5)),
            event("k", "at once"),
        ])
        .await;
        script.attempts.wait_for(4).await;
        worker.stop().await;
        let texts = script.accepted.texts();
        assert_eq!(texts.len(), 4, "{name}: nothing came early: {texts:?}");
        let mut quick_ones = texts[..2].to_vec();
        quick_ones.sort();
        assert_eq!(quick_ones, ["at once", "past"], "{name}");
    }
}
