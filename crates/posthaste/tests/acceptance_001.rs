//! The acceptance criteria of seed 001 (its section 6), one test each, named after the criterion.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use posthaste::{Event, NewEvent, Order, Outcome};
use posthaste_testkit::suite::{Backend, Process, Script, claim_some, event, quick, until};
use posthaste_testkit::{Ledger, TestDatabase, servers};
use sqlx::Executor;
use uuid::Uuid;

async fn databases() -> Vec<TestDatabase> {
    let mut databases = Vec::new();
    for server in servers() {
        databases.push(TestDatabase::on(&server).await);
    }
    databases
}

/// A turn of a conversation that used some quota, as the seed's example has it.
fn usage(tenant: Uuid, turn: u32) -> NewEvent {
    NewEvent::json("usage", &serde_json::json!({ "turn": turn }))
        .unwrap()
        .namespace("mini-chat")
        .tenant(tenant)
        .dedupe_key(format!("{}/{turn}/request-1", tenant.simple()))
}

#[tokio::test]
async fn at_most_one_row_per_dedupe_key_and_exactly_one_with_the_side_effects_of_the_first_commit() {
    for db in databases().await {
        db.pool.execute("create table turns (n int)").await.unwrap();
        let tenant = Uuid::now_v7();
        for (turn, commits) in [(1_i32, true), (1, true), (2, false), (2, true)] {
            let mut tx = db.pool.begin().await.unwrap();
            sqlx::query("insert into turns values ($1)").bind(turn).execute(&mut *tx).await.unwrap();
            db.posthaste.enqueue(&mut tx, usage(tenant, turn.unsigned_abs())).await.unwrap();
            if commits { tx.commit().await.unwrap() } else { tx.rollback().await.unwrap() }
        }
        let rows: Vec<(String, i64)> =
            sqlx::query_as("select dedupe_key, count(*) from posthaste.events group by 1 order by 1")
                .fetch_all(&db.pool)
                .await
                .unwrap();
        let expected = [1, 2].map(|turn| (format!("{}/{turn}/request-1", tenant.simple()), 1));
        assert_eq!(rows, expected);
    }
}

#[tokio::test]
async fn a_producer_that_loses_an_idempotency_race_observes_already_enqueued() {
    for db in databases().await {
        let tenant = Uuid::now_v7();
        for (turn, first_commits) in [(1, true), (2, false)] {
            let mut first = db.pool.begin().await.unwrap();
            let winner = db.posthaste.enqueue(&mut first, usage(tenant, turn)).await.unwrap();
            let mut second = db.pool.begin().await.unwrap();
            let posthaste = db.posthaste.clone();
            let racing = tokio::spawn(async move {
                let enqueued = posthaste.enqueue(&mut second, usage(tenant, turn)).await;
                second.commit().await.unwrap();
                enqueued
            });
            until("the second waits for the first", async || {
                let waiting: i64 = sqlx::query_scalar(
                    "select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'",
                )
                .fetch_one(&db.pool)
                .await
                .unwrap();
                waiting == 1
            })
            .await;
            if first_commits {
                first.commit().await.unwrap()
            } else {
                first.rollback().await.unwrap()
            }
            let second = racing.await.unwrap().expect("nobody fails");
            assert_eq!(second.duplicate, first_commits);
            assert_eq!(second.id == winner.id, first_commits);
            assert_eq!(db.count_events().await, u64::from(turn));
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn dispatchers_run_concurrently_without_double_processing() {
    for db in databases().await {
        let script = Script::accepting();
        let mut workers = Vec::new();
        for _ in 0..3 {
            let subscription = quick("usage").order(Order::None).settings(|s| s.batch_size = 5);
            let replica = TestDatabase::another(&db).await;
            workers.push(replica.handler(subscription, script.clone()).start().await.unwrap());
        }
        let tenant = Uuid::now_v7();
        for part in 0..20 {
            db.commit((0..10).map(|n| usage(tenant, part * 10 + n)).collect()).await;
        }
        script.accepted.wait_for(200).await;
        for worker in workers {
            worker.stop().await;
        }
        let ids: HashSet<_> = script.attempts.accepted().into_iter().map(|accepted| accepted.id).collect();
        assert_eq!((ids.len(), script.attempts.len()), (200, 200));
    }
}

#[tokio::test]
async fn rows_of_a_dispatcher_that_crashed_become_eligible_after_lease_expiry() {
    for db in databases().await {
        let subscription =
            quick("usage").order(Order::None).settings(|s| s.lease = Duration::from_millis(400));
        let (enqueued, tenant) = (db.commit(vec![usage(Uuid::nil(), 1)]).await, Uuid::now_v7());
        db.commit(vec![usage(tenant, 2)]).await;
        let mut crashed = db.posthaste.claims(&subscription).await.unwrap();
        assert_eq!(claim_some(&mut crashed, 10).await.len(), 2);
        drop(crashed);
        let mut other = TestDatabase::another(&db).await.claims(&subscription).await.unwrap();
        let mut reclaimed = Vec::new();
        while reclaimed.len() < 2 {
            for claimed in claim_some(&mut other, 10).await {
                reclaimed.push(claimed.event().id);
                other.settle(claimed, Outcome::Delivered).await.unwrap();
            }
        }
        assert!(reclaimed.contains(&enqueued[0].id));
    }
}

#[tokio::test]
async fn publish_failures_reschedule_with_increasing_next_attempt_at_and_record_last_error() {
    for db in databases().await {
        let script = Script::new(|_, attempt| Outcome::retry(format!("failure {attempt}")));
        let subscription = quick("usage").settings(|s| {
            s.base_delay = Duration::from_millis(100);
            s.max_delay = Duration::from_secs(5);
        });
        db.commit(vec![usage(Uuid::now_v7(), 1)]).await;
        let worker = db.posthaste.handler(subscription, script.clone()).start().await.unwrap();
        let mut seen: Vec<(u32, chrono::DateTime<chrono::Utc>, String)> = Vec::new();
        until("it is dead", async || {
            let Some(row) = db.deliveries("usage").await.pop() else { return false };
            if row.status == "pending" && seen.last().is_none_or(|last| last.0 < row.attempts) {
                seen.push((row.attempts, row.next_attempt_at, row.last_error.clone().unwrap_or_default()));
            }
            row.status == "dead"
        })
        .await;
        worker.stop().await;
        assert!(seen.len() >= 2, "{seen:?}");
        assert!(seen.is_sorted_by(|a, b| a.1 < b.1), "{seen:?}");
        assert!(seen.iter().all(|(attempts, _, error)| *error == format!("failure {attempts}")), "{seen:?}");
        assert_eq!(script.attempts.len(), 5, "the limit is the total of attempts");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn publishing_is_safe_under_retries_because_every_copy_carries_the_same_key() {
    for db in databases().await {
        db.pool.execute("create table consumed (dedupe_key text primary key)").await.unwrap();
        let tenant = Uuid::now_v7();
        db.commit((0..10).map(|turn| usage(tenant, turn)).collect()).await;
        let subscription = quick("usage").settings(|s| s.lease = Duration::from_millis(400));
        let ledger = Ledger::default();
        // The consumer does its work once per key; the acknowledgement of the first round is lost.
        let consuming = |copies: Ledger, effects: sqlx::PgPool| {
            move |event: Arc<Event>| {
                let (copies, effects) = (copies.clone(), effects.clone());
                async move {
                    sqlx::query("insert into consumed values ($1) on conflict do nothing")
                        .bind(event.dedupe_key.clone())
                        .execute(&effects)
                        .await
                        .unwrap();
                    copies.accept(&event);
                }
            }
        };
        let (open, theirs, copies, options) =
            (db.opener(), subscription.clone(), ledger.clone(), db.options.clone());
        let victim = Process::start(async move {
            let consume = consuming(copies, sqlx::PgPool::connect_with(options).await.unwrap());
            let never_answers = move |event: Arc<Event>| {
                let consumed = consume(event);
                async move {
                    consumed.await;
                    std::future::pending::<()>().await;
                }
            };
            open().await.handler(theirs, never_answers).start().await.unwrap();
        })
        .await;
        ledger.wait_for(10).await;
        victim.kill();
        let worker = db
            .posthaste
            .handler(subscription, consuming(ledger.clone(), db.pool.clone()))
            .start()
            .await
            .unwrap();
        ledger.wait_for(20).await;
        worker.stop().await;
        let ids: HashSet<_> = ledger.accepted().into_iter().map(|accepted| accepted.id).collect();
        let effects: i64 =
            sqlx::query_scalar("select count(*) from consumed").fetch_one(&db.pool).await.unwrap();
        assert_eq!((ids.len(), effects), (10, 10), "twenty copies, ten events, ten effects");
    }
}

#[tokio::test]
async fn a_dedupe_key_of_another_tenant_is_refused_and_no_row_is_inserted() {
    for db in databases().await {
        let wrong = usage(Uuid::now_v7(), 1).dedupe_key(format!("{}/1", Uuid::now_v7().simple()));
        let answers = db.commit_calls(vec![vec![wrong], vec![event("k", "good")]]).await;
        assert!(answers[0].is_err() && answers[1].is_ok());
        assert_eq!(db.count_events().await, 1);
    }
}
