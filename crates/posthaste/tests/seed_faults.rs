//! The faults found in the seeds' designs: each that could occur here is shown not to. Fault by fault:
//!
//! | fault | where it is tried, or why it cannot occur |
//! |---|---|
//! | B1 commit-order gap | here, and `torture.rs` |
//! | B2 seeding at the highest id | here, and `traps.rs` |
//! | B3 error state in a rolled-back transaction | here |
//! | B4 transaction held during the handler | here |
//! | B5 dead letter outlived by nothing but its id | a delivery refers to its event, and retention keeps what is referred to |
//! | B6 partial batch handled again | suite: `strict_order_holds_everything_behind_a_failing_event` |
//! | B7 out-of-order completion | here |
//! | B8 same-worker reclaim | suite: `a_claimer_that_claims_again_is_fenced_from_its_former_claim` |
//! | B9 unguarded nack | suite: `an_expired_lease_gives_the_event_to_the_other_and_the_late_settle_changes_nothing` |
//! | B10 stuck at the limit | here |
//! | B11, B12 batch outlives its lease | here |
//! | B13 clocks | every lease is written and compared by `clock_timestamp()`; here: no statement takes the application's time |
//! | B14 dedupe conflicts | here |
//! | B15 order of one entity | suite: `key_order_holds_through_failures` |
//! | B16 claim cost | delivered events leave no row; the statements are explained elsewhere |
//! | B17 crash while publishing | suite: `a_killed_worker_is_succeeded_without_loss_or_reordering` |
//! | B18 uniqueness is not delivery | `acceptance_001.rs`: every copy carries the same id and key |
//! | B19 unguarded marks | as B9 |
//! | B20 next attempt unknown | here |
//! | B21, B29 claim without lease | suite: `two_claimers_never_get_the_same_event` |
//! | B22 an outage kills everything | suite: `a_receiver_that_is_away_burns_no_attempts_whatever_is_restarted` |
//! | B23 to B25 consumer's marker | `inbox/main.rs` |
//! | B26 fetched again while in flight | here |
//! | B27 exhausted rows starve the rest | here |
//! | B28 crash between two sinks | belongs to the sinks; the engine repeats with the same id |
//! | B30 lost notifications | here |
//! | B31 wake before commit | here |
//! | B32 a wake-up cuts a backoff short | here |

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use posthaste::{ClaimBy, ErrorKind, Event, Order, Outcome, Start};
use posthaste_testkit::suite::{
    Backend, Process, Script, assert_key, claim_some, event, numbered, quick, until,
};
use posthaste_testkit::{Ledger, TestDatabase, servers};
use sqlx::{Executor, PgConnection};
use tokio::sync::Semaphore;

async fn databases() -> Vec<TestDatabase> {
    let mut databases = Vec::new();
    for server in servers() {
        databases.push(TestDatabase::on(&server).await);
    }
    databases
}

#[tokio::test]
async fn b1_an_event_that_commits_late_with_a_lower_seq_is_delivered() {
    for db in databases().await {
        let script = Script::accepting();
        let worker = db.posthaste.handler(quick("s"), script.clone()).start().await.unwrap();
        let mut late = db.pool.begin().await.unwrap();
        db.posthaste.enqueue(&mut late, event("a", "lower")).await.unwrap();
        db.commit(vec![event("b", "higher")]).await;
        script.accepted.wait_for(1).await;
        late.commit().await.unwrap();
        script.accepted.wait_for(2).await;
        worker.stop().await;
        assert_eq!(script.accepted.texts(), ["higher", "lower"]);
    }
}

#[tokio::test]
async fn b2_a_subscription_that_starts_now_gets_what_was_open_at_that_moment() {
    for db in databases().await {
        let mut open = db.pool.begin().await.unwrap();
        db.posthaste.enqueue(&mut open, event("a", "open")).await.unwrap();
        db.commit(vec![event("b", "before")]).await;
        let script = Script::accepting();
        let worker =
            db.posthaste.handler(quick("s").start(Start::Now), script.clone()).start().await.unwrap();
        open.commit().await.unwrap();
        db.commit(vec![event("b", "after")]).await;
        script.accepted.wait_for(2).await;
        worker.stop().await;
        let mut texts = script.accepted.texts();
        texts.sort();
        assert_eq!(texts, ["after", "open"]);
    }
}

#[derive(Clone)]
struct AbortsItsTransaction(Arc<AtomicUsize>);

impl AbortsItsTransaction {
    async fn handle(&self, tx: &mut PgConnection, event: Arc<Event>) -> Outcome {
        let fails = event.text() == Some("k-00001") && self.0.fetch_add(1, Ordering::SeqCst) < 2;
        tx.execute("insert into effects default values").await.unwrap();
        if fails {
            let error = tx.execute("select 1 / 0").await.expect_err("it divides by zero");
            return Outcome::retry(error);
        }
        Outcome::Delivered
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn b3_the_error_of_an_aborted_transaction_is_recorded_and_holds_nobody_else() {
    for db in databases().await {
        db.pool.execute("create table effects (at timestamptz default now())").await.unwrap();
        let handler = AbortsItsTransaction(Arc::default());
        let worker = db
            .posthaste
            .transactional(quick("s"), move |tx, event| {
                let handler = handler.clone();
                Box::pin(async move { handler.handle(tx, event).await })
            })
            .unwrap()
            .start()
            .await
            .unwrap();
        db.commit(numbered("k", 3)).await;
        db.commit(numbered("other", 3)).await;
        let effects = async || -> i64 {
            sqlx::query_scalar("select count(*) from effects").fetch_one(&db.pool).await.unwrap()
        };
        until("all six have taken effect", async || effects().await == 6).await;
        assert_eq!(worker.counters().retried(), 2);
        worker.stop().await;
        assert_eq!((effects().await, db.deliveries("s").await.len()), (6, 0));
    }
}

#[tokio::test]
async fn b4_no_transaction_is_open_while_a_handler_runs() {
    for db in databases().await {
        for (name, order, claim_by) in [
            ("key", Order::Key, ClaimBy::Batch),
            ("event", Order::Key, ClaimBy::Event),
            ("none", Order::None, ClaimBy::Batch),
            ("strict", Order::Strict, ClaimBy::Batch),
        ] {
            let (started, gate) = (Ledger::default(), Arc::new(Semaphore::new(0)));
            let handler = {
                let (started, gate) = (started.clone(), gate.clone());
                move |event: Arc<Event>| {
                    started.accept(&event);
                    let gate = gate.clone();
                    async move { gate.acquire().await.unwrap().forget() }
                }
            };
            let subscription = quick(name).order(order).claim_by(claim_by).start(Start::Now);
            let worker = db.posthaste.handler(subscription, handler).start().await.unwrap();
            db.commit(vec![event("k", "x")]).await;
            started.wait_for(1).await;
            until("nobody is in a transaction", async || {
                let open: i64 = sqlx::query_scalar(
                    "select count(*) from pg_stat_activity where datname = current_database() \
                     and pid <> pg_backend_pid() and (xact_start is not null or backend_xmin is not null)",
                )
                .fetch_one(&db.pool)
                .await
                .unwrap();
                open == 0
            })
            .await;
            gate.add_permits(1);
            worker.stop().await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn b7_what_hangs_while_later_ones_are_done_is_not_passed_over_by_a_crash() {
    for db in databases().await {
        for order in [Order::Key, Order::None] {
            let name = order.as_str();
            let subscription = quick(name).order(order).start(Start::Now).settings(|s| {
                s.lease = Duration::from_millis(500);
                s.batch_size = 4;
            });
            db.posthaste
                .handler(subscription.clone(), Script::accepting())
                .start()
                .await
                .unwrap()
                .stop()
                .await;
            db.commit((0..40).map(|n| event(&format!("k{n}"), &format!("{n:02}"))).collect()).await;
            let (ledger, open, theirs) = (Ledger::default(), db.opener(), subscription.clone());
            let accept = ledger.clone();
            let victim = Process::start(async move {
                let handler = move |event: Arc<Event>| {
                    let accept = accept.clone();
                    async move {
                        if event.text() == Some("08") {
                            std::future::pending::<()>().await;
                        }
                        accept.accept(&event);
                    }
                };
                open().await.handler(theirs, handler).start().await.unwrap();
            })
            .await;
            ledger.wait_for(39).await;
            victim.kill();
            let script = Script::accepting();
            let heir = db.posthaste.handler(subscription, script.clone()).start().await.unwrap();
            until("it is delivered", async || script.accepted.texts().contains(&"08".to_owned())).await;
            // A stop gives back what has not started, so first everything must be done.
            until("everything is done", async || undelivered(&db, name).await == 0).await;
            heir.stop().await;
            assert_eq!(db.deliveries(name).await, []);
        }
    }
}

/// Events that are not delivered to a subscription, whatever state they are in.
async fn undelivered(db: &TestDatabase, subscription: &str) -> i64 {
    let count =
        "select count(*) from posthaste.event_status where subscription = $1 and status <> 'delivered'";
    sqlx::query_scalar(count).bind(subscription).fetch_one(&db.pool).await.unwrap()
}

#[tokio::test]
async fn b10_a_row_at_the_limit_whose_worker_died_becomes_dead() {
    for db in databases().await {
        db.commit(vec![event("k", "x"), event("k", "next")]).await;
        let subscription = quick("s").settings(|s| {
            s.lease = Duration::from_millis(200);
            s.max_attempts = 2;
        });
        // The first loss is not counted, because the row was claimed together with another; then it is claimed alone.
        let deadline = Instant::now() + Duration::from_secs(30);
        loop {
            let mut claims = db.posthaste.claims(&subscription).await.unwrap();
            let claimed = claim_some(&mut claims, 10).await;
            if claimed[0].event().text() == Some("next") {
                break;
            }
            assert!(Instant::now() < deadline, "{:?}", db.deliveries("s").await);
        }
        let rows = db.deliveries("s").await;
        assert_eq!((rows[0].status.as_str(), rows[0].attempts), ("dead", 2), "{rows:?}");
        assert!(rows[0].last_error.as_deref().is_some_and(|error| error.contains("lost during attempt 2")));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn b11_a_batch_that_takes_longer_than_its_lease_is_renewed_and_not_given_to_others() {
    for db in databases().await {
        for (name, order, claim_by) in [
            ("key", Order::Key, ClaimBy::Batch),
            ("event", Order::Key, ClaimBy::Event),
            ("none", Order::None, ClaimBy::Batch),
            ("strict", Order::Strict, ClaimBy::Batch),
        ] {
            let ledger = Ledger::default();
            let handler = || {
                let ledger = ledger.clone();
                move |event: Arc<Event>| {
                    let ledger = ledger.clone();
                    async move {
                        tokio::time::sleep(Duration::from_millis(60)).await;
                        ledger.accept(&event);
                    }
                }
            };
            let subscription = quick(name).order(order).claim_by(claim_by).start(Start::Now).settings(|s| {
                s.lease = Duration::from_millis(600);
                s.concurrency = 1;
            });
            let first = db.posthaste.handler(subscription.clone(), handler()).start().await.unwrap();
            let second =
                TestDatabase::another(&db).await.handler(subscription, handler()).start().await.unwrap();
            db.commit(numbered("k", 25)).await;
            ledger.wait_for(25).await;
            let lost = first.counters().leases_lost() + second.counters().leases_lost();
            first.stop().await;
            second.stop().await;
            assert_eq!((ledger.len(), lost), (25, 0), "{name}");
            assert_eq!(db.deliveries(name).await, [], "{name}");
        }
    }
}

#[tokio::test]
async fn b14_callers_that_enqueue_the_same_keys_in_opposite_order_do_not_deadlock() {
    for db in databases().await {
        for round in 0..5 {
            let keys: Vec<String> = (0..20).map(|n| format!("{round}-{n:02}")).collect();
            let forth = keys.iter().map(|key| event("k", "x").dedupe_key(key)).collect();
            let back = keys.iter().rev().map(|key| event("k", "x").dedupe_key(key)).collect();
            let (forth, back) = tokio::join!(db.commit(forth), db.commit(back));
            let fresh = forth.iter().chain(&back).filter(|enqueued| !enqueued.duplicate).count();
            assert_eq!(fresh, 20);
        }
        // Under REPEATABLE READ the loser cannot see the winner: a conflict that is worth another try.
        let mut loser = db.pool.begin_with("begin isolation level repeatable read").await.unwrap();
        loser.execute("select * from posthaste.dedupe_keys").await.unwrap();
        db.commit(vec![event("k", "x").dedupe_key("seen too late")]).await;
        let conflict = db.posthaste.enqueue(&mut loser, event("k", "x").dedupe_key("seen too late")).await;
        assert_eq!(conflict.err().map(|error| error.kind()), Some(ErrorKind::Conflict));
    }
}

#[tokio::test]
async fn b20_every_delivery_has_a_time_for_its_next_attempt() {
    for db in databases().await {
        let nullable: bool = sqlx::query_scalar(
            "select not attnotnull from pg_attribute \
             where attrelid = 'posthaste.deliveries'::regclass and attname = 'next_attempt_at'",
        )
        .fetch_one(&db.pool)
        .await
        .unwrap();
        assert!(!nullable);
    }
}

#[tokio::test]
async fn b26_an_event_in_flight_is_not_fetched_again_when_others_arrive() {
    for db in databases().await {
        for (name, claim_by) in [("batch", ClaimBy::Batch), ("event", ClaimBy::Event)] {
            let (started, gate) = (Ledger::default(), Arc::new(Semaphore::new(0)));
            let handler = {
                let (started, gate) = (started.clone(), gate.clone());
                move |event: Arc<Event>| {
                    started.accept(&event);
                    let (gate, waits) = (gate.clone(), event.text() == Some("slow"));
                    async move {
                        if waits {
                            gate.acquire().await.unwrap().forget();
                        }
                    }
                }
            };
            let subscription = quick(name).claim_by(claim_by).start(Start::Now);
            let worker = db.posthaste.handler(subscription, handler).start().await.unwrap();
            db.commit(vec![event("slow", "slow")]).await;
            started.wait_for(1).await;
            for n in 0..20 {
                db.commit(vec![event("k", &n.to_string())]).await;
                db.posthaste.wake();
            }
            started.wait_for(21).await;
            gate.add_permits(1);
            worker.stop().await;
            let slow = started.texts().iter().filter(|text| *text == "slow").count();
            assert_eq!((slow, started.len()), (1, 21), "{name}");
        }
    }
}

#[tokio::test]
async fn b27_exhausted_events_do_not_starve_the_rest() {
    for db in databases().await {
        let script = Script::new(|event, _| match event.text() {
            Some("good") => Outcome::Delivered,
            _ => Outcome::retry("poison"),
        });
        let subscription = quick("s").settings(|s| {
            s.batch_size = 20;
            s.max_attempts = 2;
        });
        db.commit((0..100).map(|n| event(&format!("k{n}"), "bad")).collect()).await;
        db.commit(vec![event("k0", "good"), event("other", "good")]).await;
        let worker = db.posthaste.handler(subscription, script.clone()).start().await.unwrap();
        script.accepted.wait_for(2).await;
        until("the poison is dead", async || {
            db.deliveries("s").await.iter().filter(|row| row.status == "dead").count() == 100
        })
        .await;
        db.commit(vec![event("k1", "good")]).await;
        script.accepted.wait_for(3).await;
        worker.stop().await;
        assert_eq!(script.attempts.len(), 203);
    }
}

#[tokio::test]
async fn b30_a_lost_listening_connection_is_noticed_and_replaced() {
    for db in databases().await {
        let script = Script::accepting();
        let patient = quick("s").settings(|s| s.poll_interval = Duration::from_secs(600));
        let worker = TestDatabase::another(&db).await.handler(patient, script.clone()).start().await.unwrap();
        let listening = "from pg_stat_activity where datname = current_database() and query ilike 'listen%'";
        for n in 1..=3 {
            db.commit(vec![event("k", &n.to_string())]).await;
            let arrival = tokio::time::timeout(Duration::from_secs(8), script.accepted.wait_for(n));
            arrival.await.expect("it rang, or the listener looked when it came back");
            until("it listens", async || {
                let count = sqlx::AssertSqlSafe(format!("select count(*) {listening}"));
                sqlx::query_scalar::<_, i64>(count).fetch_one(&db.pool).await.unwrap() == 1
            })
            .await;
            let kill = sqlx::AssertSqlSafe(format!("select pg_terminate_backend(pid) {listening}"));
            db.pool.execute(kill).await.unwrap();
        }
        worker.stop().await;
    }
}

#[tokio::test]
async fn b31_a_wake_up_before_the_commit_does_not_hide_the_event() {
    for db in databases().await {
        let script = Script::accepting();
        let patient = quick("s").settings(|s| s.poll_interval = Duration::from_secs(600));
        let worker = db.posthaste.handler(patient, script.clone()).start().await.unwrap();
        for n in 1..=3 {
            let mut tx = db.pool.begin().await.unwrap();
            db.posthaste.enqueue(&mut tx, event("k", &n.to_string())).await.unwrap();
            db.posthaste.wake();
            tokio::time::sleep(Duration::from_millis(400)).await;
            tx.commit().await.unwrap();
            let arrival = tokio::time::timeout(Duration::from_secs(7), script.accepted.wait_for(n));
            arrival.await.expect("the commit rang");
        }
        worker.stop().await;
        assert_eq!(script.accepted.texts(), ["1", "2", "3"]);
    }
}

#[tokio::test]
async fn b32_a_wake_up_does_not_cut_a_backoff_short() {
    for db in databases().await {
        for order in [Order::Key, Order::Strict] {
            let name = order.as_str();
            let script = Script::new(|event, attempt| match (event.text(), attempt) {
                (Some("waits"), 1) => Outcome::retry_after(Duration::from_millis(1200), "not yet"),
                _ => Outcome::Delivered,
            });
            let subscription = quick(name).order(order).start(Start::Now);
            let worker = db.posthaste.handler(subscription, script.clone()).start().await.unwrap();
            let failed = Instant::now();
            db.commit(vec![event("k", "waits")]).await;
            script.attempts.wait_for(1).await;
            while script.accepted.texts().iter().all(|text| text != "waits") {
                db.commit(vec![event("other", "rings")]).await;
                db.posthaste.wake();
                tokio::time::sleep(Duration::from_millis(20)).await;
                // The bound is the delay that the receiver asked for, not a guess about speed.
                let early = script.attempts.texts().iter().filter(|text| *text == "waits").count() > 1
                    && failed.elapsed() < Duration::from_millis(1200);
                assert!(!early, "{name}");
            }
            worker.stop().await;
        }
    }
}

#[tokio::test]
async fn b13_a_lease_is_measured_by_the_databases_clock_alone() {
    for db in databases().await {
        db.commit(numbered("k", 1)).await;
        let subscription = quick("s").settings(|s| s.lease = Duration::from_secs(120));
        let mut claims = db.posthaste.claims(&subscription).await.unwrap();
        let claimed = claim_some(&mut claims, 1).await.remove(0);
        let within: bool = sqlx::query_scalar(
            "select bool_and(locked_until between clock_timestamp() + interval '60 s' \
             and clock_timestamp() + interval '120 s') from posthaste.deliveries",
        )
        .fetch_one(&db.pool)
        .await
        .unwrap();
        assert!(within);
        claims.settle(claimed, Outcome::Delivered).await.unwrap();
        let script = Script::accepting();
        let worker = db.posthaste.handler(quick("t"), script.clone()).start().await.unwrap();
        script.accepted.wait_for(1).await;
        worker.stop().await;
        assert_key(&script.accepted, "k", 1);
    }
}
