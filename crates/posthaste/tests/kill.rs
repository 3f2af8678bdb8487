//! `kill -9` of worker processes in the middle of batches, twenty times, while writers go on: nothing is lost, first
//! deliveries stay in order, and the duplicates stay within the bound.
//!
//! Two worker processes share two lanes. This program is trial and worker in one: with `POSTHASTE_KILL_URL` it is a worker.

use std::collections::HashMap;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use posthaste::{Event, NewEvent, Posthaste, Subscription};
use posthaste_testkit::{Accepted, Committed, Ledger, TestDatabase, Verdict};
use sqlx::postgres::PgPoolOptions;
use sqlx::{ConnectOptions, Executor, PgPool, Row};

const KILLS: usize = 20;
const LEASE: Duration = Duration::from_secs(1);
const BATCH: u32 = 20;
/// Two batches in flight per lane.
const BATCHES_IN_FLIGHT: usize = 2;
const KEYS: u64 = 40;
const URL: &str = "POSTHASTE_KILL_URL";

#[tokio::main]
async fn main() {
    match std::env::var(URL) {
        Ok(url) => be_a_worker(&url).await,
        Err(_) => trial().await,
    }
}

fn subscription() -> Subscription {
    Subscription::new("kill").unwrap().lanes(2).settings(|s| {
        s.batch_size = BATCH;
        s.lease = LEASE;
        s.poll_interval = Duration::from_millis(200);
    })
}

/// A worker whose handler takes a moment and records each acceptance in the database, until it is killed.
async fn be_a_worker(url: &str) {
    tracing_subscriber::fmt().with_writer(std::io::stderr).init();
    let pool = PgPoolOptions::new().max_connections(12).connect(url).await.unwrap();
    let accept = pool.clone();
    let handler = move |event: Arc<Event>| {
        let accept = accept.clone();
        async move {
            sqlx::query("insert into accepted (id, key, payload) values ($1, $2, $3)")
                .bind(event.id.0)
                .bind(&event.key)
                .bind(&event.payload)
                .execute(&accept)
                .await
                .map(|_| ())
        }
    };
    Posthaste::postgres(pool).handler(subscription(), handler).start().await.unwrap().stopped().await;
}

async fn trial() {
    let db = TestDatabase::new().await;
    db.pool
        .execute("create table accepted (n bigserial primary key, id uuid, key text, payload bytea, at timestamptz default clock_timestamp())")
        .await
        .unwrap();
    let url = db.options.to_url_lossy().to_string();
    let stop = Arc::new(AtomicBool::new(false));
    let writers = tokio::spawn(write(db.clone(), stop.clone()));
    let mut workers = [start(&url), start(&url)];
    wait_for_lanes(&db.pool, 2).await;
    let mut takeovers = Vec::new();
    let mut bound = 0;
    for kill in 0..KILLS {
        tokio::time::sleep(Duration::from_millis(200 + fastrand::u64(..300))).await;
        let victim = &mut workers[kill % 2];
        let before = owned_tokens(&db.pool).await;
        bound += lanes_of(&db.pool, victim.id()).await * BATCHES_IN_FLIGHT * BATCH as usize;
        victim.kill().unwrap();
        victim.wait().unwrap();
        let killed = Instant::now();
        wait_for_takeover(&db.pool, &before).await;
        takeovers.push(killed.elapsed());
        workers[kill % 2] = start(&url);
    }
    stop.store(true, Ordering::SeqCst);
    let committed = writers.await.unwrap();
    let ledger = wait_until_accepted(&db.pool, committed.len()).await;
    for mut worker in workers {
        worker.kill().unwrap();
        worker.wait().unwrap();
    }
    takeovers.sort();
    let verdict = ledger.check(&committed);
    println!("kill -9 of a worker, {KILLS} times, {} events: {verdict}", committed.len());
    println!(
        "  duplicates allowed: {bound}; takeover after at most {:?} with a lease of {LEASE:?}",
        takeovers[KILLS - 1]
    );
    judge(&verdict, bound);
    println!("\n1 passed, 0 failed");
}

fn judge(verdict: &Verdict, bound: usize) {
    assert_eq!(
        (verdict.lost, verdict.ghosts, verdict.inversions, verdict.corrupted),
        (0, 0, 0, 0),
        "{verdict}"
    );
    assert!(verdict.duplicates <= bound, "{} duplicates, at most {bound} are allowed", verdict.duplicates);
}

fn start(url: &str) -> Child {
    let program = std::env::current_exe().unwrap();
    Command::new(program).env(URL, url).stdout(Stdio::null()).spawn().unwrap()
}

/// Four writers; each owns its keys, so the place in a key is the commit order.
async fn write(db: TestDatabase, stop: Arc<AtomicBool>) -> Vec<Committed> {
    let writers: Vec<_> =
        (0..4_u64).map(|writer| tokio::spawn(write_keys(db.clone(), writer, stop.clone()))).collect();
    let mut committed = Vec::new();
    for writer in writers {
        committed.extend(writer.await.unwrap());
    }
    committed
}

async fn write_keys(db: TestDatabase, writer: u64, stop: Arc<AtomicBool>) -> Vec<Committed> {
    let mut places: HashMap<u64, u64> = HashMap::new();
    let mut committed = Vec::new();
    while !stop.load(Ordering::SeqCst) {
        let number = fastrand::u64(..KEYS / 4) * 4 + writer;
        let place = places.entry(number).or_default();
        *place += 1;
        let (key, payload) = (format!("key-{number}"), format!("{number}:{place}").into_bytes());
        let mut tx = db.pool.begin().await.unwrap();
        let event = NewEvent::bytes("kill", payload.clone()).key(&key);
        let enqueued = db.posthaste.enqueue(&mut tx, event).await.unwrap();
        tx.commit().await.unwrap();
        committed.push(Committed { id: enqueued.id, place: Some((key, *place)), payload });
        tokio::time::sleep(Duration::from_millis(12)).await;
    }
    committed
}

async fn wait_for_lanes(pool: &PgPool, lanes: usize) {
    while owned_tokens(pool).await.len() < lanes {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Lanes with a live lease, with their tokens.
async fn owned_tokens(pool: &PgPool) -> HashMap<i32, uuid::Uuid> {
    let rows = sqlx::query(
        "select lane, token from posthaste.lanes where token is not null and locked_until > clock_timestamp()",
    )
    .fetch_all(pool)
    .await
    .unwrap();
    rows.iter().map(|row| (row.get("lane"), row.get("token"))).collect()
}

/// How many lanes a process owns: so many times two batches may be repeated if it is killed.
async fn lanes_of(pool: &PgPool, process: u32) -> usize {
    let lanes: i64 = sqlx::query_scalar(
        "select count(*) from posthaste.lanes where locked_by like $1 and token is not null",
    )
    .bind(format!("worker-{process}-%"))
    .fetch_one(pool)
    .await
    .unwrap();
    lanes.unsigned_abs() as usize
}

/// Waits until every lane has a live lease again and the victim's has a new token.
async fn wait_for_takeover(pool: &PgPool, before: &HashMap<i32, uuid::Uuid>) {
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        let now = owned_tokens(pool).await;
        if now.len() == 2 && now != *before {
            return;
        }
        assert!(Instant::now() < deadline, "nobody took the lane over within a minute");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

async fn wait_until_accepted(pool: &PgPool, count: usize) -> Ledger {
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        let distinct: i64 =
            sqlx::query_scalar("select count(distinct id) from accepted").fetch_one(pool).await.unwrap();
        if distinct.unsigned_abs() as usize >= count || Instant::now() > deadline {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let ledger = Ledger::default();
    for row in sqlx::query("select id, key, payload from accepted order by n").fetch_all(pool).await.unwrap()
    {
        ledger.accept_raw(Accepted {
            id: posthaste::EventId(row.get("id")),
            key: row.get("key"),
            payload: row.get("payload"),
        });
    }
    ledger
}
