//! A pooler that gives each transaction to another connection of the server, and keeps no prepared statement: PgBouncer in
//! transaction mode.

use std::time::Duration;

use posthaste::{Event, Order, Outcome, Posthaste};
use posthaste_testkit::suite::{Backend, Script, event, quick, until};
use posthaste_testkit::{Committed, PgBouncer, PoolMode, TestDatabase, servers};
use sqlx::PgPool;
use sqlx::postgres::PgPoolOptions;

/// Fewer connections to the server than anybody has to the pooler.
const SERVERS: u16 = 2;
const CLIENTS: u32 = 6;
const EVENTS: u64 = 200;

struct Bench {
    db: TestDatabase,
    pooler: PgBouncer,
}

impl Bench {
    /// On every server; none if there is no pooler on this machine.
    async fn all() -> Vec<Self> {
        let mut benches = Vec::new();
        for server in servers() {
            let db = TestDatabase::on(&server).await;
            let (options, name) = (&db.options, db.options.get_database().expect("a database"));
            let url =
                format!("postgres://{}@127.0.0.1:{}/{name}", options.get_username(), options.get_port());
            match PgBouncer::before(&url, PoolMode::Transaction, SERVERS).await {
                Err(reason) if reason.contains("missing") => eprintln!("skipped: {reason}"),
                started => benches.push(Self { db, pooler: started.expect("a pooler") }),
            }
        }
        benches
    }

    fn client(&self) -> PgPool {
        PgPoolOptions::new().max_connections(CLIENTS).connect_lazy(&self.pooler.url()).expect("a URL")
    }

    fn posthaste(&self) -> Posthaste {
        Posthaste::postgres(self.client()).without_prepared_statements()
    }
}

/// Commits events of four keys through the pooler, a few at a time, and says so as the checker needs it.
async fn commit(bench: &Bench, namespace: &str, keyed: bool) -> Vec<Committed> {
    let (client, producer) = (bench.client(), bench.posthaste());
    let mut committed = Vec::new();
    for n in 0..EVENTS {
        let (key, body) = (format!("k{}", n % 4), format!("{n:05}"));
        let mut tx = client.begin().await.expect("begun");
        let event = event(&key, &body).namespace(namespace).dedupe_key(body.as_str());
        let written = producer.enqueue(&mut tx, event).await.expect("enqueued");
        tx.commit().await.expect("committed");
        let place = keyed.then_some((key, n));
        committed.push(Committed { id: written.id, place, payload: body.into_bytes() });
    }
    committed
}

/// Three workers, each with connections of its own, and events of which some fail at first.
async fn deliver(bench: &Bench, order: Order) {
    let name = format!("{order:?}").to_lowercase();
    let fails = |event: &Event| event.payload.ends_with(b"7");
    let script = Script::new(move |event, attempt| match fails(event) && attempt == 1 {
        true => Outcome::retry("not yet"),
        false => Outcome::Delivered,
    });
    let mut workers = Vec::new();
    for _ in 0..3 {
        let lanes = if order == Order::Key { 2 } else { 1 };
        let subscription = quick(&name).order(order).lanes(lanes).namespace(&name);
        let subscription = subscription.settings(|s| {
            s.batch_size = 10;
            s.poll_interval = Duration::from_millis(50);
        });
        workers.push(bench.posthaste().handler(subscription, script.clone()).start().await.expect("started"));
    }
    let committed = commit(bench, &name, order != Order::None).await;
    until("all was sent", async || script.accepted.check(&committed).lost == 0).await;
    let verdict = script.accepted.check(&committed);
    assert_eq!((verdict.inversions, verdict.ghosts, verdict.duplicates), (0, 0, 0), "{name}: {verdict}");
    for worker in workers {
        assert_eq!(worker.counters().errors(), 0, "{name}");
        worker.stop().await;
    }
    assert_eq!(bench.db.deliveries(&name).await, [], "all is settled");
}

#[tokio::test(flavor = "multi_thread")]
async fn workers_deliver_through_a_pooler_without_prepared_statements() {
    for bench in Bench::all().await {
        bench.posthaste().migrate().await.expect("migrated");
        tokio::join!(
            deliver(&bench, Order::Key),
            deliver(&bench, Order::None),
            deliver(&bench, Order::Strict)
        );
    }
}

/// Asks many times at once.
async fn ask_often(posthaste: &Posthaste) -> Vec<posthaste::Error> {
    let asking = (0..200).map(|_| async {
        let admin = posthaste.admin();
        let asked = admin.subscriptions().await.map(drop);
        asked.and(admin.operations(10).await.map(drop)).err()
    });
    futures::future::join_all(asking).await.into_iter().flatten().collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn prepared_statements_are_what_a_pooler_does_not_keep() {
    for bench in Bench::all().await {
        let refused = ask_often(&bench.posthaste()).await;
        assert!(refused.is_empty(), "{refused:?}");
        let refused = ask_often(&Posthaste::postgres(bench.client())).await;
        println!("control with prepared statements: {} of 200 refused", refused.len());
        let about = |error: &posthaste::Error| format!("{error:?}").contains("prepared statement");
        assert!(refused.iter().any(about), "{refused:?}");
    }
}
