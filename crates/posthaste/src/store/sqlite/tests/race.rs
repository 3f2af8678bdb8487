//! Several pools on one file, as several processes would be.

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::Arc;

use sqlx::sqlite::SqliteConnectOptions;
use tokio::sync::Barrier;
use tokio_util::sync::CancellationToken;

use crate::error::{Error, Result};
use crate::lease::Reader;
use crate::observe::Bell;

use super::*;

/// A pool with hardly any patience of its own: ours must do.
async fn impatient(bench: &Bench) -> SqliteStore {
    let options: SqliteConnectOptions =
        sqlite_options(bench.dir.path().join("log.db")).busy_timeout(Duration::from_millis(1));
    SqliteStore::new(SqlitePoolOptions::new().max_connections(3).connect_with(options).await.unwrap())
}

async fn claim_all(store: SqliteStore, reader: Reader, name: &'static str, total: i64) -> Vec<i64> {
    let worker = holder(name, LONG);
    let lane = store.open_lane(&reader).await.unwrap();
    let mut mine = Vec::new();
    loop {
        match store.claim_fresh(&reader, lane, None, &worker, &mut Cursor::Unknown).await.unwrap() {
            Fresh::Batch(batch) => {
                mine.extend(seqs(&batch.events));
                assert!(store.settle_batch(&reader, reference(&batch), &[], &worker).await.unwrap());
            }
            Fresh::Nothing if settled_to(&store).await >= total => return mine,
            _ => tokio::task::yield_now().await,
        }
    }
}

async fn settled_to(store: &SqliteStore) -> i64 {
    let sql = "select coalesce(max(seq_to), 0) from posthaste_batches";
    sqlx::query_scalar(sql).fetch_one(&store.pool).await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_pools_claim_every_event_once_and_busy_never_surfaces() {
    let bench = Bench::new().await;
    let none = subscription().order(Order::None).settings(|s| s.batch_size = 3);
    let reader = bench.subscribe(none).await;
    let (left, right) = (impatient(&bench).await, impatient(&bench).await);
    let workers = [
        tokio::spawn(claim_all(left.clone(), reader.clone(), "a", 150)),
        tokio::spawn(claim_all(left, reader.clone(), "b", 150)),
        tokio::spawn(claim_all(right, reader.clone(), "c", 150)),
    ];
    for _ in 0..50 {
        bench.enqueue(&[event(), event(), event()]).await;
    }
    let mut all = Vec::new();
    for worker in workers {
        all.extend(worker.await.unwrap());
    }
    assert_eq!((all.len(), all.iter().collect::<HashSet<_>>().len()), (150, 150));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_pools_never_share_a_lane() {
    let bench = Bench::new().await;
    let reader = bench.subscribe(subscription().lanes(4)).await;
    bench.enqueue(&(0..40).map(|n| event().key(format!("k{n}"))).collect::<Vec<_>>()).await;
    let stores = [impatient(&bench).await, impatient(&bench).await];
    let take = |store: SqliteStore, name: &'static str| {
        let reader = reader.clone();
        tokio::spawn(async move {
            let mut taken = Vec::new();
            while let Some(claim) = store.claim_lane(&reader, &holder(name, LONG)).await.unwrap() {
                taken.push(claim.lane);
            }
            taken
        })
    };
    let (left, right) = tokio::join!(take(stores[0].clone(), "a"), take(stores[1].clone(), "b"));
    let lanes: Vec<Lane> = left.unwrap().into_iter().chain(right.unwrap()).collect();
    assert_eq!((lanes.len(), lanes.iter().collect::<HashSet<_>>().len()), (4, 4));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_pools_never_share_a_delivery() {
    let bench = Bench::new().await;
    let reader = bench.subscribe(subscription()).await;
    let keys: Vec<String> = (0..60).map(|n| format!("k{n}")).collect();
    bench.enqueue_keys(&keys.iter().map(String::as_str).collect::<Vec<_>>()).await;
    let worker = holder("w", LONG);
    let batch = bench.claim(&reader, &worker).await;
    let troubles: Vec<Trouble> = (0..60).map(|i| trouble(&batch, i, retry(Duration::ZERO))).collect();
    bench.store.settle_batch(&reader, reference(&batch), &troubles, &worker).await.unwrap();
    let take = |store: SqliteStore, name: &'static str| {
        let reader = reader.clone();
        tokio::spawn(async move {
            let mut taken = Vec::new();
            loop {
                match store.claim_deliveries(&reader, &holder(name, LONG), 7, true).await.unwrap() {
                    claims if claims.is_empty() => return taken,
                    claims => taken.extend(claimed_seqs(&claims)),
                }
            }
        })
    };
    let (left, right) = tokio::join!(take(impatient(&bench).await, "a"), take(impatient(&bench).await, "b"));
    let seqs: Vec<i64> = left.unwrap().into_iter().chain(right.unwrap()).collect();
    assert_eq!((seqs.len(), seqs.iter().collect::<HashSet<_>>().len()), (60, 60));
}

/// Many fresh files, because the switch to write-ahead logging is refused to one of two only now and then.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn programs_may_open_migrate_and_declare_at_the_same_time() {
    let dir = tempfile::tempdir().unwrap();
    for round in 0..60 {
        let file = dir.path().join(format!("{round}.db"));
        let begin = Arc::new(Barrier::new(4));
        let programs: Vec<_> =
            (0..4).map(|_| tokio::spawn(open_and_declare(file.clone(), begin.clone()))).collect();
        for program in programs {
            assert_eq!(program.await.unwrap().unwrap().id, 1);
        }
    }
}

async fn open_and_declare(file: PathBuf, begin: Arc<Barrier>) -> Result<Reader> {
    begin.wait().await;
    let pool = SqlitePoolOptions::new().connect_with(sqlite_options(file)).await;
    let store = SqliteStore::new(pool.map_err(Error::database("open"))?);
    store.migrate().await?;
    store.declare(&subscription()).await
}

#[tokio::test]
async fn a_database_in_memory_with_a_single_connection_is_enough() {
    let pool = SqlitePoolOptions::new().max_connections(1).connect("sqlite::memory:").await.unwrap();
    let store = SqliteStore::new(pool);
    store.migrate().await.unwrap();
    let reader = store.declare(&subscription()).await.unwrap();
    store.enqueue(&mut store.pool.acquire().await.unwrap(), &[event(), event()]).await.unwrap();
    let worker = holder("w", LONG);
    let lane = store.claim_lane(&reader, &worker).await.unwrap().unwrap();
    let fresh = store.claim_fresh(&reader, lane.lane, Some(lane.token), &worker, &mut Cursor::Unknown).await;
    let batch = batch(fresh.unwrap());
    assert!(
        store
            .settle_batch(&reader, reference(&batch), &[trouble(&batch, 0, retry(LONG))], &worker)
            .await
            .unwrap()
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_long_write_of_the_application_is_waited_for() {
    let bench = Bench::new().await;
    let store = impatient(&bench).await;
    let mut tx = bench.store.pool.begin_with("begin immediate").await.unwrap();
    bench.store.enqueue(&mut tx, &[event()]).await.unwrap();
    let declaring = tokio::spawn(async move { store.declare(&subscription()).await });
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert!(!declaring.is_finished());
    tx.commit().await.unwrap();
    declaring.await.unwrap().unwrap();
}

#[tokio::test]
async fn the_watch_rings_for_commits_of_other_pools_and_ends_when_told() {
    let bench = Bench::new().await;
    let (bell, stop) = (Arc::new(Bell::default()), CancellationToken::new());
    let watch = tokio::spawn({
        let (store, bell, stop) = (bench.store.clone(), bell.clone(), stop.clone());
        async move { store.watch(bell, stop).await }
    });
    let soon = |seen| tokio::time::timeout(LONG, bell.wait_past(seen));
    soon(0).await.unwrap();
    assert!(bell.listening());
    for store in [&bench.store, &bench.again().await] {
        let seen = bell.count();
        let mut conn = store.pool.acquire().await.unwrap();
        store.enqueue(&mut conn, &[event()]).await.unwrap();
        soon(seen).await.unwrap();
    }
    stop.cancel();
    watch.await.unwrap();
    assert!(!bell.listening());
    let sign = bench.store.put_up_sign(LONG).await.unwrap();
    assert!(bench.store.all_ended(&sign).await.unwrap());
}
