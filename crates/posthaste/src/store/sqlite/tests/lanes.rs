//! Splitting keys over lanes.

use std::collections::{HashMap, HashSet};

use super::*;
use crate::store::admin::{AdminStore, ReplayFrom};

fn lanes(count: u16) -> Subscription {
    subscription().lanes(count).settings(|s| s.batch_size = 10)
}

/// Claims lanes until none is left, settling every page; returns (generation, lane, seqs) in the order read.
async fn drain(bench: &Bench, reader: &Reader) -> Vec<(i32, i32, i64)> {
    let worker = holder("w", LONG);
    let mut read = Vec::new();
    while let Some(claim) = bench.store.claim_lane(reader, &worker).await.unwrap() {
        loop {
            match bench.fresh(reader, claim.lane, Some(claim.token), &worker).await {
                Fresh::Batch(batch) => {
                    read.extend(
                        seqs(&batch.events)
                            .into_iter()
                            .map(|s| (batch.lane.generation, batch.lane.number, s)),
                    );
                    assert!(bench.store.settle_batch(reader, reference(&batch), &[], &worker).await.unwrap());
                }
                Fresh::Again => {}
                Fresh::Nothing | Fresh::LaneFinished => break,
                other => panic!("{other:?}"),
            }
        }
    }
    read
}

async fn enqueue_some(bench: &Bench, count: usize) {
    let events: Vec<NewEvent> =
        (0..count).map(|n| if n % 5 == 0 { event() } else { event().key(format!("k{}", n % 13)) }).collect();
    bench.enqueue(&events).await;
}

#[tokio::test]
async fn every_event_belongs_to_exactly_one_lane_and_a_key_to_one() {
    let bench = Bench::new().await;
    let reader = bench.subscribe(lanes(4)).await;
    enqueue_some(&bench, 200).await;
    let read = drain(&bench, &reader).await;
    let all: HashSet<i64> = read.iter().map(|(_, _, seq)| *seq).collect();
    assert_eq!((read.len(), all.len()), (200, 200));
    let keys: HashMap<i64, Option<String>> = sqlx::query_as("select seq, key from posthaste_events")
        .fetch_all(&bench.store.pool)
        .await
        .unwrap()
        .into_iter()
        .collect();
    let mut lane_of: HashMap<&str, i32> = HashMap::new();
    for (_, lane, seq) in &read {
        if let Some(key) = &keys[seq] {
            assert_eq!(*lane_of.entry(key).or_insert(*lane), *lane);
        }
    }
    assert_eq!(lane_of.values().collect::<HashSet<_>>().len(), 4);
    assert_eq!(bench.statuses("billing").await, vec!["delivered"; 200]);
}

#[tokio::test]
async fn a_split_ends_the_old_lanes_at_its_mark_and_starts_the_new_ones_there() {
    let bench = Bench::new().await;
    let reader = bench.subscribe(lanes(1)).await;
    enqueue_some(&bench, 25).await;
    let worker = holder("old", LONG);
    let old = bench.store.claim_lane(&reader, &worker).await.unwrap().unwrap();
    let open = batch(bench.fresh(&reader, old.lane, Some(old.token), &worker).await);
    let reader = bench.subscribe(lanes(3)).await;
    assert_eq!(reader.lanes, 3);
    enqueue_some(&bench, 30).await;
    assert!(
        bench.store.claim_lane(&reader, &worker).await.unwrap().is_none(),
        "the old lane is not finished"
    );
    assert_eq!(bench.statuses("billing").await[10..], vec!["pending"; 45]);
    for wanted in [11..=20, 21..=25] {
        let batch = batch(bench.fresh(&reader, old.lane, Some(old.token), &worker).await);
        assert_eq!(seqs(&batch.events), wanted.collect::<Vec<_>>());
        bench.store.settle_batch(&reader, reference(&batch), &[], &worker).await.unwrap();
    }
    let waiting = bench.fresh(&reader, old.lane, Some(old.token), &worker).await;
    assert!(matches!(waiting, Fresh::Nothing), "its first batch is unfinished: {waiting:?}");
    bench.store.settle_batch(&reader, reference(&open), &[], &worker).await.unwrap();
    assert!(matches!(bench.fresh(&reader, old.lane, Some(old.token), &worker).await, Fresh::LaneFinished));
    let read = drain(&bench, &reader).await;
    assert!(read.iter().all(|(generation, _, seq)| *generation == 2 && *seq > 25));
    assert_eq!(read.len(), 30);
    assert_eq!(bench.statuses("billing").await, vec!["delivered"; 55]);
}

#[tokio::test]
async fn splits_can_follow_each_other_before_the_first_has_ended() {
    let bench = Bench::new().await;
    bench.subscribe(lanes(1)).await;
    for count in [2, 5, 1] {
        enqueue_some(&bench, 40).await;
        bench.subscribe(lanes(count)).await;
    }
    enqueue_some(&bench, 40).await;
    let reader = bench.store.reader("billing").await.unwrap();
    let read = drain(&bench, &reader).await;
    assert_eq!(read.iter().map(|(.., seq)| *seq).collect::<HashSet<_>>().len(), 160);
    assert_eq!(read.len(), 160);
    assert!(read.is_sorted_by_key(|(generation, ..)| *generation));
}

#[tokio::test]
async fn lanes_end_also_where_claimers_compete() {
    let bench = Bench::new().await;
    bench.subscribe(lanes(2)).await;
    enqueue_some(&bench, 20).await;
    let reader = bench.subscribe(subscription().order(Order::None)).await;
    enqueue_some(&bench, 20).await;
    let worker = holder("w", LONG);
    let mut count = 0;
    loop {
        let lane = bench.store.open_lane(&reader).await.unwrap();
        match bench.fresh(&reader, lane, None, &worker).await {
            Fresh::Batch(batch) => {
                count += batch.events.len();
                bench.store.settle_batch(&reader, reference(&batch), &[], &worker).await.unwrap();
            }
            Fresh::LaneFinished => {}
            Fresh::Nothing => break,
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(count, 40);
}

#[tokio::test]
async fn a_replay_reaches_a_lane_that_waits_at_its_end_for_the_others() {
    let bench = Bench::new().await;
    bench.subscribe(lanes(2)).await;
    enqueue_some(&bench, 20).await;
    let reader = bench.subscribe(lanes(3)).await;
    let worker = holder("w", LONG);
    let first = bench.store.claim_lane(&reader, &worker).await.unwrap().unwrap();
    loop {
        match bench.fresh(&reader, first.lane, Some(first.token), &worker).await {
            Fresh::Batch(batch) => {
                assert!(bench.store.settle_batch(&reader, reference(&batch), &[], &worker).await.unwrap());
            }
            Fresh::LaneFinished => break,
            other => panic!("{other:?}"),
        }
    }
    assert!(bench.statuses("billing").await.contains(&"delivered".to_owned()));
    bench.store.replay("billing", ReplayFrom::Beginning, "alice").await.unwrap();
    assert_eq!(bench.statuses("billing").await, ["pending"; 20]);
    let read: HashSet<i64> = drain(&bench, &reader).await.into_iter().map(|(_, _, seq)| seq).collect();
    assert_eq!(read.len(), 20, "also what the finished lane had read");
}

#[tokio::test]
async fn a_full_disk_that_ends_a_transaction_costs_a_connection_and_nothing_else() {
    let bench = Bench::new().await;
    let alone = SqlitePoolOptions::new().max_connections(1);
    let pool = alone.connect_with(sqlite_options(bench.dir.path().join("log.db"))).await.unwrap();
    let store = SqliteStore::new(pool.clone());
    sqlx::raw_sql("create table filler (x blob); pragma max_page_count = 1").execute(&pool).await.unwrap();
    let mut write = store.begin("fill").await.unwrap();
    let full = sqlx::raw_sql("insert into filler values (zeroblob(10000000))").execute(&mut *write).await;
    assert!(full.unwrap_err().to_string().contains("full"));
    drop(write);
    // The control: the driver takes what is left of it to be in a transaction.
    let left = pool.acquire().await.unwrap();
    assert!(sqlx::Connection::is_in_transaction(&*left), "SQLite has ended it, and the driver does not know");
    drop(left);
    let again = store.begin("write again").await.unwrap();
    again.commit("write again").await.unwrap();
}
