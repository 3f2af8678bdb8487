//! Retention: only what nobody needs goes.

#[expect(dead_code, reason = "shared by several test programs; this one uses its part")]
#[macro_use]
mod admin_common;

use std::time::Duration;

use admin_common::*;
use posthaste::admin::{EventQuery, HeldBack, ReplayFrom, RetentionPolicy, RetentionReport};
use posthaste::{NewEvent, Outcome};
use posthaste_testkit::TestDatabase;

const ALL: Duration = Duration::ZERO;

async fn retain(db: &impl Database) -> RetentionReport {
    let policy =
        RetentionPolicy::new(|p| (p.events_older_than, p.journal_older_than, p.chunk) = (ALL, ALL, 3));
    db.posthaste().admin().retain(&policy).await.unwrap()
}

/// Runs until retention has moved to this seq and no further: transactions of other databases may hold it for a moment.
async fn retained_to(db: &impl Database, seq: i64) {
    let sql = "select retained_to from posthaste.meta";
    until("retention moves on", async || retain(db).await.events == 0 && db.scalar(sql).await >= seq).await;
    assert_eq!(db.scalar(sql).await, seq);
}

async fn left(db: &impl Database) -> Vec<String> {
    let all = EventQuery::new(|query| query.oldest_first = true);
    let page = db.posthaste().admin().events(&all).await.unwrap();
    page.events.iter().map(|found| found.event.text().unwrap().to_owned()).collect()
}

on_every_database!(
    delivered_events_go_and_young_ones_stay,
    what_a_slow_paused_or_new_subscription_needs_stays,
    an_event_in_an_open_batch_stays,
    dead_letters_and_retries_keep_their_event_and_hold_nothing_else,
    what_a_replay_wants_again_stays,
    the_journal_and_the_dedupe_keys_are_trimmed_and_progress_is_kept,
);

async fn delivered_events_go_and_young_ones_stay<D: Database>() {
    let db = D::fresh().await;
    let mut claims = db.posthaste().claims(&quick("s")).await.unwrap();
    enqueue_numbered(&db, "k", 1..=10).await;
    drain(&mut claims).await;
    assert_eq!(
        db.posthaste().admin().retain(&RetentionPolicy::default()).await.unwrap().events,
        0,
        "all are young"
    );
    let report = retain(&db).await;
    assert_eq!((report.events, report.held_back), (10, vec![]));
    retained_to(&db, 10).await;
    enqueue_numbered(&db, "k", 11..=12).await;
    assert_eq!(drain(&mut claims).await, ["k011", "k012"], "reading goes on");
    assert_eq!(retain(&db).await.events, 2);
}

async fn what_a_slow_paused_or_new_subscription_needs_stays<D: Database>() {
    let db = D::fresh().await;
    let admin = db.posthaste().admin();
    let mut quick_one = db.posthaste().claims(&quick("quick")).await.unwrap();
    let mut paused = db.posthaste().claims(&quick("paused")).await.unwrap();
    enqueue_numbered(&db, "k", 1..=4).await;
    drain(&mut paused).await;
    admin.pause("paused").await.unwrap();
    enqueue_numbered(&db, "k", 5..=8).await;
    drain(&mut quick_one).await;
    let report = retain(&db).await;
    assert_eq!(report.events, 4);
    let [HeldBack::Lane { subscription, oldest_seq, paused: true, .. }] = report.held_back.as_slice() else {
        panic!("{:?}", report.held_back)
    };
    assert_eq!((subscription.as_str(), *oldest_seq), ("paused", 5));
    let mut newcomer = db.posthaste().claims(&quick("newcomer")).await.unwrap();
    admin.resume("paused").await.unwrap();
    assert_eq!(drain(&mut paused).await.len(), 4);
    assert_eq!(retain(&db).await.events, 0, "the newcomer has read nothing yet");
    assert_eq!(drain(&mut newcomer).await.len(), 4);
    assert_eq!(retain(&db).await.events, 4);
}

async fn an_event_in_an_open_batch_stays<D: Database>() {
    let db = D::fresh().await;
    let (open, gate) = tokio::sync::watch::channel(false);
    let handler = move |_: std::sync::Arc<posthaste::Event>| {
        let mut gate = gate.clone();
        async move {
            gate.wait_for(|open| *open).await.unwrap();
        }
    };
    let admin = db.posthaste().admin();
    let worker = db.posthaste().handler(quick("s"), handler).start().await.unwrap();
    enqueue_numbered(&db, "k", 1..=2).await;
    until("claimed", async || admin.subscription("s").await.unwrap().in_flight.exact() == Some(2)).await;
    assert_eq!(retain(&db).await.events, 0);
    open.send(true).unwrap();
    until("settled", async || admin.subscription("s").await.unwrap().lag.is_zero()).await;
    assert_eq!(retain(&db).await.events, 2);
    worker.stop().await;
}

async fn dead_letters_and_retries_keep_their_event_and_hold_nothing_else<D: Database>() {
    let db = D::fresh().await;
    let mut claims = db.posthaste().claims(&quick("s")).await.unwrap();
    enqueue(&db, ["a1", "bad", "a2", "later", "a3"].map(|body| event(body, body)).to_vec()).await;
    drain(&mut claims).await;
    let report = retain(&db).await;
    assert_eq!(report.events, 3);
    assert_eq!(left(&db).await, ["bad", "later"]);
    let held = HeldBack::Deliveries { subscription: "s".into(), dead: 1, waiting: 1 };
    let [found] = report.held_back.as_slice() else { panic!("{:?}", report.held_back) };
    assert_eq!(found.to_string(), "`s` has 1 dead letters and 1 waiting deliveries");
    assert_eq!(format!("{found:?}"), format!("{held:?}"));
    // Up to the dead letter, which is looked at again.
    retained_to(&db, 1).await;
    db.posthaste().admin().skip(&posthaste::admin::DeliveryQuery::all("s")).await.unwrap();
    assert_eq!(retain(&db).await.events, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_old_seq_that_commits_late_is_delivered_and_then_removed() {
    let db = TestDatabase::new().await;
    let mut claims = db.posthaste.claims(&quick("s")).await.unwrap();
    let mut late = db.pool.begin().await.unwrap();
    db.posthaste.enqueue(&mut late, event("late", "late")).await.unwrap();
    enqueue_numbered(&db, "k", 1..=5).await;
    drain(&mut claims).await;
    assert_eq!(retain(&db).await.events, 5);
    assert_eq!(db.scalar("select retained_to from posthaste.meta").await, 0, "seq 1 may still be committed");
    late.commit().await.unwrap();
    assert_eq!(retain(&db).await.events, 0, "it was not delivered yet");
    assert_eq!(drain(&mut claims).await, ["late"]);
    enqueue_numbered(&db, "k", 6..=6).await;
    drain(&mut claims).await;
    assert_eq!(retain(&db).await.events, 2);
    assert!(left(&db).await.is_empty());
}

async fn what_a_replay_wants_again_stays<D: Database>() {
    let db = D::fresh().await;
    let mut claims = db.posthaste().claims(&quick("s")).await.unwrap();
    let ids = enqueue_numbered(&db, "k", 1..=6).await;
    drain(&mut claims).await;
    db.posthaste().admin().replay("s", ReplayFrom::Event(ids[3])).await.unwrap();
    assert_eq!(retain(&db).await.events, 3);
    assert_eq!(drain(&mut claims).await, ["k004", "k005", "k006"]);
    assert_eq!(retain(&db).await.events, 3);
}

async fn the_journal_and_the_dedupe_keys_are_trimmed_and_progress_is_kept<D: Database>() {
    let db = D::fresh().await;
    let mut claims = db.posthaste().claims(&quick("s")).await.unwrap();
    for n in 0..10 {
        let short = NewEvent::bytes("orders", format!("d{n}").into_bytes()).dedupe_key(format!("d{n}"));
        enqueue(&db, vec![short.dedupe_for(Duration::from_millis(1))]).await;
        for claimed in claims.claim(1).await.unwrap() {
            claims.settle(claimed, Outcome::Delivered).await.unwrap();
        }
    }
    drain(&mut claims).await;
    let batches = db.scalar("select count(*) from posthaste.batches").await;
    tokio::time::sleep(Duration::from_millis(5)).await;
    let report = retain(&db).await;
    assert_eq!(report.dedupe_keys, 10);
    assert_eq!(report.batches, u64::try_from(batches - 1).unwrap());
    assert_eq!(db.scalar("select count(*) from posthaste.batches").await, 1, "the newest is the progress");
    enqueue_numbered(&db, "k", 1..=2).await;
    assert_eq!(drain(&mut claims).await, ["k001", "k002"], "no more and no less");
    let mut another = db.another().await.claims(&quick("s")).await.unwrap();
    assert!(another.claim(10).await.unwrap().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn marks_that_nobody_refers_to_are_removed() {
    let db = TestDatabase::new().await;
    let mut claims = db.posthaste.claims(&quick("s")).await.unwrap();
    for n in 1..=10 {
        enqueue_numbered(&db, "k", n..=n).await;
        assert_eq!(drain(&mut claims).await.len(), 1);
    }
    db.run("update posthaste.marks set taken_at = taken_at - interval '2 hours'").await;
    let report = retain(&db).await;
    assert!(report.marks > 5, "{report:?}");
    enqueue_numbered(&db, "k", 11..=11).await;
    assert_eq!(drain(&mut claims).await, ["k011"], "the marks in use are there");
}
