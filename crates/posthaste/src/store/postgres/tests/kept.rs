//! Connections that are used again without the pool, pages that are read ahead, and plans that are made too early.

use std::sync::Arc;
use std::time::{Duration, Instant};

use sqlx::postgres::PgPoolOptions;
use sqlx::{AssertSqlSafe, Connection, Executor, PgConnection};

use super::{store, urls};
use crate::event::NewEvent;
use crate::id::WorkerName;
use crate::lease::Holder;
use crate::store::postgres::deadline::Lent;
use crate::store::postgres::kept::{Kept, LENT_FOR, has_spare};
use crate::store::postgres::{Memory, PgStore};
use crate::store::{BatchRef, Cursor, Fresh, Store};
use crate::subscription::Subscription;

async fn process(conn: &mut Lent) -> i32 {
    sqlx::query_scalar("select pg_backend_pid()").fetch_one(&mut **conn).await.unwrap()
}

/// The same log with so many connections.
async fn with_connections(url: &str, count: u32) -> PgStore {
    let pool = PgPoolOptions::new().max_connections(count).min_connections(count).connect(url).await.unwrap();
    PgStore { pool, ..store(url).await }
}

#[tokio::test]
async fn a_connection_that_has_answered_is_lent_again_and_soon_given_back() {
    let store = with_connections(&urls()[0], 3).await;
    // More than once: a machine may be busy for longer than it is kept.
    let mut same = false;
    for _ in 0..100 {
        let mut conn = store.lend("test").await.unwrap();
        let first = process(&mut conn).await;
        store.keep(conn);
        // The pool does not have it.
        if let Some(mut conn) = store.memory.kept.take() {
            assert_eq!(process(&mut conn).await, first);
            assert!(store.pool.num_idle() < 3);
            same = true;
            store.keep(conn);
        }
    }
    assert!(same);
    let all = async {
        while store.pool.num_idle() < 3 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), all).await.expect("it comes back without being asked for");
    assert!(store.memory.kept.take().is_none());
}

#[tokio::test]
async fn the_last_connection_of_a_pool_is_not_kept() {
    let store = with_connections(&urls()[0], 1).await;
    store.keep(store.lend("test").await.unwrap());
    assert!(store.memory.kept.take().is_none(), "somebody may be waiting for it");
    store.pool.acquire().await.unwrap();
}

/// One that is wanted all the time would never be too old for its pool.
#[tokio::test]
async fn a_connection_that_was_lent_long_ago_is_given_back() {
    let store = with_one_kept(&urls()[0]).await;
    let mut conn = store.memory.kept.take().expect("it is kept");
    conn.since = Instant::now().checked_sub(LENT_FOR).expect("the machine has run for longer");
    store.keep(conn);
    assert!(store.memory.kept.take().is_none());
}

/// With one of two connections kept, for an hour if nobody else needs it.
async fn with_one_kept(url: &str) -> PgStore {
    let kept = Kept::lasting(Duration::from_secs(3600));
    let memory = Arc::new(Memory { kept, ..Memory::default() });
    let store = PgStore { memory, ..with_connections(url, 2).await };
    store.keep(store.lend("test").await.unwrap());
    store
}

/// A pool may run short while one is kept that nobody has asked for yet.
#[tokio::test]
async fn a_kept_connection_goes_back_at_once_when_the_pool_has_no_other() {
    let store = with_one_kept(&urls()[0]).await;
    let both = async { [store.pool.acquire().await.unwrap(), store.pool.acquire().await.unwrap()] };
    let both = tokio::time::timeout(Duration::from_secs(20), both).await.expect("the kept one comes back");
    assert!(!has_spare(&store.pool), "{} are lent", both.len());
}

#[tokio::test]
async fn a_pool_that_is_closed_does_not_wait_for_what_is_kept() {
    let store = with_one_kept(&urls()[0]).await;
    tokio::time::timeout(Duration::from_secs(20), store.pool.close()).await.expect("it ends");
}

#[tokio::test]
async fn a_kept_connection_that_broke_costs_one_question() {
    let store = with_connections(&urls()[0], 3).await;
    let mut other = PgConnection::connect(&urls()[0]).await.unwrap();
    for _ in 0..20 {
        let mut conn = store.lend("test").await.unwrap();
        let first = process(&mut conn).await;
        // It is kept only after that, so that its end is sure to come before its use.
        sqlx::query("select pg_terminate_backend($1)").bind(first).execute(&mut other).await.unwrap();
        tokio::time::sleep(Duration::from_millis(100)).await;
        store.keep(conn);
        // Unless the machine was busy for longer than it is kept.
        if store.answers().await.is_err() {
            return store.answers().await.unwrap();
        }
    }
    panic!("the broken one was never lent");
}

/// Claims a batch of one event after the other, and settles them.
async fn drain(store: &PgStore, batches: i64) {
    let subscription = Subscription::new("s").unwrap().settings(|s| s.batch_size = 1);
    let reader = store.declare(&subscription).await.unwrap();
    let holder = Holder { worker: WorkerName::unique(), lease: Duration::from_secs(600) };
    let lane = store.claim_lane(&reader, &holder).await.unwrap().unwrap();
    let mut cursor = Cursor::Unknown;
    for number in 1..=batches {
        let fresh =
            store.claim_fresh(&reader, lane.lane, Some(lane.token), &holder, &mut cursor).await.unwrap();
        let Fresh::Batch(batch) = fresh else { panic!("batch {number}: {fresh:?}") };
        assert_eq!(batch.number, number);
        assert!(store.settle_delivered(&reader, BatchRef::to(&batch), &holder, false).await.unwrap());
    }
}

async fn enqueue(store: &PgStore, count: u32) {
    let mut conn = store.pool.acquire().await.unwrap();
    let events: Vec<NewEvent> = (0..count).map(|n| NewEvent::bytes("t", n.to_be_bytes())).collect();
    store.enqueue(&mut conn, &events).await.unwrap();
}

/// All on one connection, which keeps its plans. With plans from the first batch on, a thousand batches read a million rows.
#[tokio::test]
async fn no_plan_is_kept_that_was_made_for_an_empty_table_of_batches() {
    let url = &urls()[0];
    let store = with_connections(url, 1).await;
    let mut conn = PgConnection::connect(url).await.unwrap();
    let batches = format!("{}.batches", store.schema.as_str());
    // One that was never vacuumed is taken for larger than it is.
    conn.execute(AssertSqlSafe(format!("vacuum (analyze) {batches}"))).await.unwrap();
    // One that is analyzed in between gets a new plan.
    conn.execute(AssertSqlSafe(format!("alter table {batches} set (autovacuum_enabled = off)")))
        .await
        .unwrap();
    enqueue(&store, 1000).await;
    drain(&store, 1000).await;
    // What a connection has read is known when it has ended.
    store.pool.close().await;
    let read = format!(
        "select n_tup_ins, seq_tup_read from pg_stat_user_tables where relid = '{batches}'::regclass"
    );
    let (mut inserted, mut read_whole): (i64, i64) = (0, 0);
    for _ in 0..1000 {
        (inserted, read_whole) =
            sqlx::query_as(AssertSqlSafe(read.clone())).fetch_one(&mut conn).await.unwrap();
        if inserted == 1000 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    println!("{read_whole} rows of {batches} were read by reading all of them");
    assert_eq!(inserted, 1000);
    assert!(read_whole < 50_000, "{read_whole} rows");
}

#[tokio::test]
async fn two_pages_are_read_ahead_and_no_more() {
    let store = with_connections(&urls()[0], 3).await;
    enqueue(&store, 10).await;
    let subscription = Subscription::new("s").unwrap().settings(|s| s.batch_size = 1);
    let reader = store.declare(&subscription).await.unwrap();
    let holder = Holder { worker: WorkerName::unique(), lease: Duration::from_secs(600) };
    let lane = store.claim_lane(&reader, &holder).await.unwrap().unwrap();
    let mut cursor = Cursor::Unknown;
    for claims in 1..=4 {
        let fresh =
            store.claim_fresh(&reader, lane.lane, Some(lane.token), &holder, &mut cursor).await.unwrap();
        assert!(matches!(fresh, Fresh::Batch(batch) if batch.number == claims));
        let Cursor::Postgres(place) = &cursor else { panic!("{cursor:?}") };
        let ahead = || place.ahead.as_ref().map_or(0, |ahead| ahead.ready());
        let two = async {
            while ahead() < 2 {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(20), two).await.expect("the next two are read");
        tokio::time::sleep(Duration::from_millis(50)).await;
        assert_eq!(ahead(), 2);
    }
    cursor.forget_ahead();
    let Fresh::Batch(fifth) =
        store.claim_fresh(&reader, lane.lane, Some(lane.token), &holder, &mut cursor).await.unwrap()
    else {
        panic!("the fifth")
    };
    assert_eq!(fifth.events[0].event.payload, 4_u32.to_be_bytes(), "nothing is skipped by forgetting");
}
