//! The tests that seed 000 asks for in its phase 4, one each: several listeners on one log, each with its own cursor.

use std::time::Duration;

use posthaste::{Order, Outcome, Start, Subscription};
use posthaste_testkit::suite::{Backend, Script, numbered, quick, until};
use posthaste_testkit::{TestDatabase, servers};
use sqlx::Row;

async fn databases() -> Vec<TestDatabase> {
    let mut databases = Vec::new();
    for server in servers() {
        databases.push(TestDatabase::on(&server).await);
    }
    databases
}

/// A listener as the seed has it: the whole log in order, one cursor.
fn listener(name: &str) -> Subscription {
    quick(name).order(Order::Strict)
}

#[tokio::test]
async fn cursor_management_each_listener_goes_on_where_it_stopped() {
    for db in databases().await {
        let script = Script::accepting();
        for part in 1..=3 {
            let worker = db.posthaste.handler(listener("broadcast"), script.clone()).start().await.unwrap();
            db.commit(numbered(&format!("part{part}"), 10)).await;
            script.accepted.wait_for(part * 10).await;
            worker.stop().await;
        }
        // A new listener starts at the end, as the seed's migration does, and gets only what comes.
        let late = Script::accepting();
        let newcomer = listener("companion").start(Start::Now);
        let worker = db.posthaste.handler(newcomer, late.clone()).start().await.unwrap();
        db.commit(numbered("part4", 5)).await;
        late.accepted.wait_for(5).await;
        worker.stop().await;
        assert_eq!((script.attempts.len(), late.attempts.len()), (30, 5), "nothing is handled twice");
        assert!(script.accepted.texts().is_sorted() && late.accepted.texts().is_sorted());
    }
}

#[tokio::test]
async fn retry_logic_counts_backs_off_records_the_error_and_gives_up_after_five() {
    for db in databases().await {
        let script = Script::new(|event, attempt| match event.text() {
            Some("k-00001") => Outcome::retry(format!("error {attempt}")),
            _ => Outcome::Delivered,
        });
        let backing_off = listener("broadcast").settings(|s| s.base_delay = Duration::from_millis(60));
        db.commit(numbered("k", 3)).await;
        let worker = db.posthaste.handler(backing_off, script.clone()).start().await.unwrap();
        let mut seen: Vec<(i32, String)> = Vec::new();
        until("the listener has gone on", async || {
            let held = sqlx::query(
                "select retry_count, last_error, retry_after from posthaste.batches \
                 where finished_at is null and retry_count > 0 and last_error is not null",
            )
            .fetch_optional(&db.pool)
            .await
            .unwrap();
            seen.extend(held.map(|row| (row.get("retry_count"), row.get("last_error"))));
            seen.dedup();
            script.accepted.len() == 2
        })
        .await;
        worker.stop().await;
        assert!(!seen.is_empty() && seen.is_sorted(), "{seen:?}");
        assert!(seen.iter().all(|(count, error)| *error == format!("error {count}")), "{seen:?}");
        let attempts = script.attempts.texts().iter().filter(|text| *text == "k-00001").count();
        assert_eq!(attempts, 5);
        let dead = db.deliveries("broadcast").await;
        assert_eq!((dead.len(), dead[0].status.as_str(), dead[0].attempts), (1, "dead", 5));
        assert!(dead[0].last_error.as_deref().is_some_and(|error| error.contains("error 5")));
        assert_eq!(script.accepted.texts(), ["k-00000", "k-00002"], "then on to the next event");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn several_listeners_process_the_same_events() {
    for db in databases().await {
        let mut listeners = Vec::new();
        for name in ["broadcast", "companion", "audit"] {
            let script = Script::accepting();
            let worker = db.posthaste.handler(listener(name), script.clone()).start().await.unwrap();
            listeners.push((worker, script));
        }
        for part in 0..10 {
            db.commit(numbered(&format!("part{part}"), 10)).await;
        }
        for (worker, script) in listeners {
            script.accepted.wait_for(100).await;
            worker.stop().await;
            assert_eq!(script.attempts.len(), 100);
            assert!(script.accepted.texts().is_sorted());
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn one_listener_fails_and_the_other_continues() {
    for db in databases().await {
        let (broken, healthy) = (Script::new(|_, _| Outcome::retry("broken")), Script::accepting());
        let patient = listener("companion").settings(|s| s.max_attempts = 1000);
        let failing = db.posthaste.handler(patient.clone(), broken.clone()).start().await.unwrap();
        let working = db.posthaste.handler(listener("broadcast"), healthy.clone()).start().await.unwrap();
        for part in 0..5 {
            db.commit(numbered(&format!("part{part}"), 10)).await;
            healthy.accepted.wait_for((part + 1) * 10).await;
        }
        broken.attempts.wait_for(3).await;
        failing.stop().await;
        working.stop().await;
        assert!(broken.attempts.texts().iter().all(|text| text == "part0-00000"), "it holds its own place");
        // It recovers without losing anything.
        let recovered = Script::accepting();
        let worker = db.posthaste.handler(patient, recovered.clone()).start().await.unwrap();
        recovered.accepted.wait_for(50).await;
        worker.stop().await;
        assert_eq!(recovered.accepted.texts(), healthy.accepted.texts());
    }
}
