//! Commit-order torture: writers that commit in every awkward order, and readers that must not lose, repeat, reorder or
//! invent a single event. Two deliberately wrong readers run beside them: if those looked right, this would prove nothing.

use std::sync::Arc;
use std::time::Duration;

use posthaste::{ClaimBy, Event, EventId, Order, Posthaste, Subscription, Worker};
use posthaste_testkit::{Accepted, Commits, Ledger, Server, TestDatabase, Verdict, Workload, servers};
use sqlx::{Executor, PgPool, Row};
use tokio_util::sync::CancellationToken;

struct Reading {
    name: &'static str,
    ledger: Ledger,
    workers: Vec<Worker>,
}

async fn read(name: &'static str, subscription: Subscription, handles: &[&Posthaste]) -> Reading {
    let ledger = Ledger::default();
    let mut workers = Vec::new();
    for handle in handles {
        let accept = ledger.clone();
        let handler = move |event: Arc<Event>| {
            accept.accept(&event);
            async {}
        };
        workers.push(handle.handler(subscription.clone(), handler).start().await.unwrap());
    }
    Reading { name, ledger, workers }
}

fn batches_of(name: &str, size: u32) -> Subscription {
    Subscription::new(name).unwrap().settings(|s| {
        s.batch_size = size;
        s.poll_interval = Duration::from_millis(500);
    })
}

/// Remembers the last seq it saw: loses what commits later with a lower one.
async fn read_after_last_seq(pool: PgPool, ledger: Ledger, stop: CancellationToken) {
    let mut last = 0_i64;
    while !stop.is_cancelled() {
        let rows = sqlx::query(
            "select seq, id, key, payload from posthaste.events where seq > $1 order by seq limit 100",
        )
        .bind(last)
        .fetch_all(&pool)
        .await
        .unwrap();
        for row in &rows {
            last = row.get("seq");
            ledger.accept_raw(accepted(row));
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

/// Waits for the oldest running transaction and reads in xid order: loses nothing, but stalls, and reorders keys.
async fn read_below_xmin(pool: PgPool, ledger: Ledger, stop: CancellationToken) {
    let mut last = ("0".to_owned(), 0_i64);
    while !stop.is_cancelled() {
        let rows = sqlx::query(
            "select xid::text as xid, seq, id, key, payload from posthaste.events e \
             where (e.xid, e.seq) > ($1::text::xid8, $2) and e.xid < pg_snapshot_xmin(pg_current_snapshot()) \
             order by e.xid, e.seq limit 100",
        )
        .bind(&last.0)
        .bind(last.1)
        .fetch_all(&pool)
        .await
        .unwrap();
        for row in &rows {
            last = (row.get("xid"), row.get("seq"));
            ledger.accept_raw(accepted(row));
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

fn accepted(row: &sqlx::postgres::PgRow) -> Accepted {
    Accepted { id: EventId(row.get("id")), key: row.get("key"), payload: row.get("payload") }
}

async fn torture(server: &Server) {
    let db = TestDatabase::on(server).await;
    let (second, third) = (db.another().await, db.another().await);
    let writers = TestDatabase::another(&db).await;
    let workload = Workload::default();
    workload.prepare(&db.pool).await;

    let readings = [
        read("key, batches of 100", batches_of("a", 100), &[&db.posthaste]).await,
        read("key, batches of 1", batches_of("b", 1), &[&db.posthaste]).await,
        read("key, three lanes, two workers", batches_of("c", 7).lanes(3), &[&second, &third]).await,
        read("none, two competing workers", batches_of("d", 10).order(Order::None), &[&second, &third]).await,
        read("key, by event", batches_of("e", 50).claim_by(ClaimBy::Event), &[&third]).await,
        read("strict", batches_of("f", 30).order(Order::Strict), &[&second]).await,
    ];
    let stop = CancellationToken::new();
    let (after_last, below_xmin) = (Ledger::default(), Ledger::default());
    let wrong = [
        tokio::spawn(read_after_last_seq(db.pool.clone(), after_last.clone(), stop.clone())),
        tokio::spawn(read_below_xmin(db.pool.clone(), below_xmin.clone(), stop.clone())),
    ];

    // An unrelated writer that idles with an xid, and a snapshot held open: both for the whole run.
    let mut idle_writer = db.pool.begin().await.unwrap();
    idle_writer.execute("insert into other values (2)").await.unwrap();
    let mut snapshot = db.pool.begin_with("begin isolation level repeatable read").await.unwrap();
    snapshot.execute("select count(*) from other").await.unwrap();

    let commits = Commits::default();
    let writer_pool = sqlx::postgres::PgPoolOptions::new()
        .max_connections(workload.writers + 1)
        .connect_with(db.options.clone())
        .await
        .unwrap();
    tokio::join!(
        workload.run(&writers, &writer_pool, &commits),
        workload.prepared_transaction(&writers, &writer_pool, &commits, Duration::from_millis(700)),
    );
    let committed = commits.all();
    for reading in &readings {
        reading.ledger.wait_for(committed.len()).await;
    }
    idle_writer.rollback().await.unwrap();
    snapshot.rollback().await.unwrap();
    below_xmin.wait_for(committed.len()).await;
    stop.cancel();
    for task in wrong {
        task.await.unwrap();
    }

    println!(
        "PostgreSQL ({}), {} events committed by {} writers",
        server.name,
        committed.len(),
        workload.writers
    );
    for Reading { name, ledger, workers } in readings {
        for worker in workers {
            worker.stop().await;
        }
        let ordered = !name.starts_with("none");
        let found: Verdict = ledger.check(&committed);
        // Who promises no order can break none.
        let verdict = if ordered { found } else { Verdict { inversions: 0, ..found } };
        println!("  {name}: {verdict}");
        assert_eq!(
            (verdict.lost, verdict.ghosts, verdict.duplicates, verdict.corrupted),
            (0, 0, 0, 0),
            "{name}"
        );
        assert_eq!(verdict.inversions, 0, "{name}: {verdict}");
    }
    let (loses, reorders) = (after_last.check(&committed), below_xmin.check(&committed));
    println!("  control `seq > last`: {loses}\n  control `(xid, seq)` below xmin: {reorders}");
    assert!(loses.lost > 0, "the control must lose events, else this test sees no loss: {loses}");
    assert!(
        reorders.inversions > 0,
        "the control must reorder keys, else this test sees no inversion: {reorders}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn no_event_is_lost_repeated_reordered_or_invented_whatever_the_commit_order() {
    for server in servers() {
        torture(&server).await;
    }
}
