//! Every statement of the catalogue prepares on every supported server.

mod plans;
mod rights;
mod windows;
mod deadlines;
mod kept;
mod signs;
mod enqueue;

use sqlx::{AssertSqlSafe, Connection, Executor, PgConnection, Row};

use std::time::Duration;

use super::PgStore;
use crate::event::NewEvent;
use crate::id::{SchemaName, WorkerName};
use crate::lease::{Holder, Lane, Settlement, Trouble};
use crate::store::admin::{AdminStore, ReplayFrom};
use crate::store::{BatchRef, Cursor, Fresh, Handled, Hold, Store};
use crate::subscription::{Filter, Order, Subscription};

fn urls() -> Vec<String> {
    let names = ["POSTHASTE_TEST_POSTGRES", "POSTHASTE_TEST_POSTGRES_CURRENT"];
    let urls: Vec<String> = names.iter().filter_map(|name| std::env::var(name).ok()).collect();
    assert!(!urls.is_empty(), "no PostgreSQL to test on: run `cargo xtask test`");
    urls
}

/// A migrated schema of its own, with a name that differs from the default: nothing may depend on it.
pub(super) async fn store(url: &str) -> PgStore {
    let schema = SchemaName::parse(&format!("statements_{:08x}", fastrand::u32(..))).unwrap();
    let store = PgStore::new(sqlx::PgPool::connect(url).await.unwrap(), schema);
    store.run_migrations().await.unwrap();
    store
}

#[tokio::test]
async fn every_statement_prepares() {
    for url in urls() {
        let store = store(&url).await;
        let mut conn = PgConnection::connect(&url).await.unwrap();
        // LOCK TABLE is no statement that could be prepared; a split of lanes runs it.
        for (name, text) in store.sql.all().into_iter().filter(|(name, _)| *name != "lock_batches") {
            let prepared = conn.execute(AssertSqlSafe(format!("prepare {name} as {text}"))).await;
            assert!(prepared.is_ok(), "{name}.sql: {}", prepared.unwrap_err());
        }
    }
}

#[tokio::test]
async fn migrating_twice_and_at_once_is_harmless() {
    let url = &urls()[0];
    let store = store(url).await;
    let (first, second) = tokio::join!(store.run_migrations(), store.run_migrations());
    first.unwrap();
    second.unwrap();
    store.check_database().await.unwrap();
}

/// Claims write out what lane_of() does, or they would be planned anew for every page. Both must put a key into the same lane.
#[tokio::test]
async fn claims_and_lane_of_agree_about_lanes() {
    let store = store(&urls()[0]).await;
    let mut conn = store.pool.acquire().await.unwrap();
    let mut events: Vec<NewEvent> =
        (0..300).map(|n| NewEvent::bytes("t", "").key(format!("schlüssel-{n}"))).collect();
    events.extend((0..100).map(|_| NewEvent::bytes("t", "")));
    store.enqueue(&mut conn, &events).await.unwrap();
    let schema = store.schema.as_str();
    let wanted = super::statements::WANTED;
    let sql = format!(
        "select {schema}.lane_of(e.key, e.seq, 7) from {schema}.events e where $1::bigint is not null and {wanted}"
    );
    let mut seen = 0;
    for number in 0..7 {
        let lane = Lane { generation: 1, number, of: 7 };
        let query = store.query(AssertSqlSafe(sql.clone()));
        let rows =
            super::read::bind_wanted(query, 0, &Filter::default(), lane).fetch_all(&mut conn).await.unwrap();
        assert!(rows.iter().all(|row| row.get::<i32, _>(0) == number), "lane {number}");
        seen += rows.len();
    }
    assert_eq!(seen, 400, "every event has one lane");
}

/// After a fail-over the newest batch a worker remembers may never have existed on the new server, and another one may
/// carry its number. A claim that follows it must fail, and the next one must go by what is there.
#[tokio::test]
async fn a_claim_does_not_follow_a_batch_that_a_fail_over_has_undone() {
    let store = store(&urls()[0]).await;
    let subscription = Subscription::new("s").unwrap().settings(|s| s.batch_size = 1);
    let reader = store.declare(&subscription).await.unwrap();
    let holder = Holder { worker: WorkerName::unique(), lease: Duration::from_secs(60) };
    let lane = store.claim_lane(&reader, &holder).await.unwrap().unwrap();
    let mut conn = store.pool.acquire().await.unwrap();
    let events: Vec<NewEvent> = (0..3_u8).map(|n| NewEvent::bytes("t", vec![n])).collect();
    store.enqueue(&mut conn, &events).await.unwrap();
    let mut cursor = Cursor::Unknown;
    let mut claim =
        async || store.claim_fresh(&reader, lane.lane, Some(lane.token), &holder, &mut cursor).await.unwrap();
    assert!(matches!(claim().await, Fresh::Batch(_)));
    let undo =
        format!("update {}.batches set inserted_at = inserted_at - interval '1 s'", store.schema.as_str());
    conn.execute(AssertSqlSafe(undo)).await.unwrap();
    assert!(matches!(claim().await, Fresh::Again), "the remembered batch is not the one that is there");
    let Fresh::Batch(second) = claim().await else { panic!("the place is read again") };
    assert_eq!((second.number, second.events[0].event.payload.as_slice()), (2, &[1][..]));
}

/// The server may have committed a claim whose answer was lost with the connection: the owner asks what it holds.
#[tokio::test]
async fn a_claim_whose_answer_was_lost_is_found_again_whole() {
    let store = store(&urls()[0]).await;
    let reader = store.declare(&Subscription::new("s").unwrap()).await.unwrap();
    let holder = Holder { worker: WorkerName::unique(), lease: Duration::from_secs(60) };
    let lane = store.claim_lane(&reader, &holder).await.unwrap().unwrap();
    let mut conn = store.pool.acquire().await.unwrap();
    let events: Vec<NewEvent> = (0..7_u8).map(|n| NewEvent::bytes("t", vec![n]).key("k")).collect();
    store.enqueue(&mut conn, &events).await.unwrap();
    let lost =
        store.claim_fresh(&reader, lane.lane, Some(lane.token), &holder, &mut Cursor::Unknown).await.unwrap();
    drop(lost);
    let [found] =
        &store.held_batches(&reader, lane.lane, lane.token, &mut Cursor::Unknown).await.unwrap()[..]
    else {
        panic!("one batch is held")
    };
    let bodies: Vec<u8> = found.events.iter().map(|claimed| claimed.event.payload[0]).collect();
    assert_eq!((found.number, bodies), (1, (0..7).collect()));
    let elsewhere = crate::id::Token::new();
    assert!(
        store.held_batches(&reader, lane.lane, elsewhere, &mut Cursor::Unknown).await.unwrap().is_empty()
    );
}

/// It may also commit after its owner has asked. Then the owner's next claim is refused: it must not step over it.
#[tokio::test]
async fn a_claim_that_happens_after_its_owner_has_asked_for_it_is_not_stepped_over() {
    let store = store(&urls()[0]).await;
    let reader = store.declare(&Subscription::new("s").unwrap()).await.unwrap();
    let holder = Holder { worker: WorkerName::unique(), lease: Duration::from_secs(60) };
    let lane = store.claim_lane(&reader, &holder).await.unwrap().unwrap();
    let mut conn = store.pool.acquire().await.unwrap();
    store.enqueue(&mut conn, &[NewEvent::bytes("t", vec![1])]).await.unwrap();
    let mut cursor = Cursor::Unknown;
    let held = store.held_batches(&reader, lane.lane, lane.token, &mut cursor).await.unwrap();
    assert!(held.is_empty() && !cursor.is_unknown());
    let claim = async |cursor: &mut Cursor| {
        store.claim_fresh(&reader, lane.lane, Some(lane.token), &holder, cursor).await.unwrap()
    };
    assert!(matches!(claim(&mut Cursor::Unknown).await, Fresh::Batch(_)), "the one that was given up");
    store.enqueue(&mut conn, &[NewEvent::bytes("t", vec![2])]).await.unwrap();
    assert!(matches!(claim(&mut cursor).await, Fresh::Again));
    assert!(cursor.is_unknown(), "so that it is asked for again");
    let held = store.held_batches(&reader, lane.lane, lane.token, &mut cursor).await.unwrap();
    assert_eq!(held.iter().map(|batch| batch.number).collect::<Vec<_>>(), [1]);
    let Fresh::Batch(next) = claim(&mut cursor).await else { panic!("the next one") };
    assert_eq!(next.number, 2);
}

/// A crash of the server can undo a claim, and another batch gets its number. What the holder says of the one that is gone
/// must not settle the one that is there: it may hold events that nobody has delivered.
#[tokio::test]
async fn a_settlement_of_a_batch_that_was_undone_does_not_settle_its_namesake() {
    let store = store(&urls()[0]).await;
    let reader = store.declare(&Subscription::new("s").unwrap()).await.unwrap();
    let holder = Holder { worker: WorkerName::unique(), lease: Duration::from_secs(60) };
    let lane = store.claim_lane(&reader, &holder).await.unwrap().unwrap();
    let claim = async || {
        let cursor = &mut Cursor::Unknown;
        match store.claim_fresh(&reader, lane.lane, Some(lane.token), &holder, cursor).await.unwrap() {
            Fresh::Batch(batch) => batch,
            other => panic!("{other:?}"),
        }
    };
    let mut late = store.pool.begin().await.unwrap();
    store.enqueue(&mut late, &[NewEvent::bytes("t", "late")]).await.unwrap();
    let mut conn = store.pool.acquire().await.unwrap();
    store.enqueue(&mut conn, &[NewEvent::bytes("t", "early")]).await.unwrap();
    let undone = claim().await;
    let undo = format!("delete from {}.batches", store.schema.as_str());
    conn.execute(AssertSqlSafe(undo)).await.unwrap();
    late.commit().await.unwrap();
    let there = claim().await;
    assert_eq!((undone.number, undone.token), (there.number, there.token), "nothing else tells them apart");
    assert_eq!((undone.events.len(), there.events.len()), (1, 2));
    assert!(!store.settle_batch(&reader, BatchRef::to(&undone), &[], &holder).await.unwrap());
    assert!(store.settle_batch(&reader, BatchRef::to(&there), &[], &holder).await.unwrap());
}

/// The same with what was recorded of a batch: the delivery of an event that failed went with the record. If its holder went
/// on from there, that event would count as handled and nobody would try it again.
#[tokio::test]
async fn nothing_goes_on_from_a_record_that_was_undone() {
    let store = store(&urls()[0]).await;
    let reader = store.declare(&Subscription::new("s").unwrap()).await.unwrap();
    let holder = Holder { worker: WorkerName::unique(), lease: Duration::from_secs(60) };
    let lane = store.claim_lane(&reader, &holder).await.unwrap().unwrap();
    let mut conn = store.pool.acquire().await.unwrap();
    let events: Vec<NewEvent> = (0..4_u8).map(|n| NewEvent::bytes("t", vec![n])).collect();
    store.enqueue(&mut conn, &events).await.unwrap();
    let claimed =
        store.claim_fresh(&reader, lane.lane, Some(lane.token), &holder, &mut Cursor::Unknown).await;
    let Fresh::Batch(batch) = claimed.unwrap() else { panic!("a batch") };
    let seqs: Vec<i64> = batch.events.iter().map(|claimed| claimed.event.seq).collect();
    let (first, failed) = (BatchRef::to(&batch), &batch.events[1].event);
    let settlement = Settlement::Retry { delay: Duration::from_secs(60), error: "no".to_owned() };
    let (seq, event_id) = (failed.seq, failed.id);
    let trouble = Trouble { seq, event_id, key: None, settlement, attempts: 1, steps: 0, solo: false };
    let handled = Handled { to: 0, beyond: vec![seqs[1], seqs[3]] };
    assert!(store.record_batch(&reader, first, &handled, &[trouble], &holder).await.unwrap());
    let left = async || {
        let held =
            store.held_batches(&reader, lane.lane, lane.token, &mut Cursor::Unknown).await.unwrap().remove(0);
        let left = held.events.iter().filter(|claimed| !claimed.elsewhere);
        (held.records, left.map(|claimed| claimed.event.seq).collect::<Vec<i64>>())
    };
    assert_eq!(left().await, (1, vec![seqs[0], seqs[2]]));
    let schema = store.schema.as_str();
    for undo in [
        format!("update {schema}.batches set done = null, records = 0"),
        format!("delete from {schema}.deliveries"),
    ] {
        conn.execute(AssertSqlSafe(undo)).await.unwrap();
    }
    let second = BatchRef { records: 1, ..first };
    assert!(!store.record_batch(&reader, second, &handled, &[], &holder).await.unwrap());
    assert!(!store.settle_batch(&reader, second, &[], &holder).await.unwrap());
    assert!(!store.settle_delivered(&reader, second, &holder, true).await.unwrap());
    assert_eq!(left().await, (0, seqs));
}

/// What was given up as late may still happen. Its attempts were made at an event that is done: counted for the next one, they
/// would make that one dead before its time.
#[tokio::test]
async fn a_late_hold_does_not_count_for_the_next_event() {
    let store = store(&urls()[0]).await;
    let reader = store.declare(&Subscription::new("s").unwrap().order(Order::Strict)).await.unwrap();
    let holder = Holder { worker: WorkerName::unique(), lease: Duration::from_secs(60) };
    let lane = store.claim_lane(&reader, &holder).await.unwrap().unwrap();
    let mut conn = store.pool.acquire().await.unwrap();
    let events: Vec<NewEvent> = (0..3_u8).map(|n| NewEvent::bytes("t", vec![n])).collect();
    store.enqueue(&mut conn, &events).await.unwrap();
    let claimed =
        store.claim_fresh(&reader, lane.lane, Some(lane.token), &holder, &mut Cursor::Unknown).await;
    let Fresh::Batch(batch) = claimed.unwrap() else { panic!("a batch") };
    let hold = async |done_to, attempts| {
        let hold = Hold { done_to, attempts, steps: 0, delay: Duration::ZERO, error: None };
        store.hold_batch(&reader, BatchRef::to(&batch), &hold, &[], &holder).await.unwrap()
    };
    let first = batch.events[0].event.seq;
    assert!(hold(0, 4).await && hold(first, 0).await);
    assert!(hold(first, 0).await, "written again because the answer was lost");
    assert!(!hold(0, 4).await, "the late one");
    let cursor = &mut Cursor::Unknown;
    let found = store.held_batches(&reader, lane.lane, lane.token, cursor).await.unwrap().remove(0);
    assert_eq!((found.events.len(), found.held.unwrap().attempts), (2, 0));
}

/// A replay makes deliveries of what is in flight, and so may the worker that settles it at the same moment. Both lock the batch
/// first; otherwise each would wait for the other, and PostgreSQL would end one of them after a second.
#[tokio::test]
async fn a_replay_waits_for_a_settlement_that_writes_deliveries() {
    let store = store(&urls()[0]).await;
    let reader = store.declare(&Subscription::new("s").unwrap().order(Order::None)).await.unwrap();
    let holder = Holder { worker: WorkerName::unique(), lease: Duration::from_secs(60) };
    let lane = store.open_lane(&reader).await.unwrap();
    let mut conn = store.pool.acquire().await.unwrap();
    let events: Vec<NewEvent> = (0..2_u8).map(|n| NewEvent::bytes("t", vec![n])).collect();
    store.enqueue(&mut conn, &events).await.unwrap();
    let claimed = store.claim_fresh(&reader, lane, None, &holder, &mut Cursor::Unknown).await;
    let Fresh::Batch(batch) = claimed.unwrap() else { panic!("a batch") };
    let mut tx = store.pool.begin().await.unwrap();
    assert!(store.mark_finished(&mut tx, &reader, BatchRef::to(&batch), None).await.unwrap());
    let (replays, waits) = (store.clone(), waits_for_a_lock(&store));
    let replay =
        tokio::spawn(async move { AdminStore::replay(&replays, "s", ReplayFrom::Beginning, "test").await });
    while !sqlx::query_scalar::<_, bool>(AssertSqlSafe(waits.clone())).fetch_one(&store.pool).await.unwrap() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let failed = &batch.events[0].event;
    let settlement = Settlement::Retry { delay: Duration::from_secs(60), error: "no".to_owned() };
    let (seq, event_id) = (failed.seq, failed.id);
    let trouble = Trouble { seq, event_id, key: None, settlement, attempts: 1, steps: 0, solo: false };
    store.insert_troubles(&mut tx, &reader, &[trouble], &holder).await.unwrap();
    tx.commit().await.unwrap();
    replay.await.unwrap().unwrap();
}

/// Whether somebody waits for a lock in a statement on this schema.
fn waits_for_a_lock(store: &PgStore) -> String {
    format!(
        "select count(*) > 0 from pg_stat_activity where wait_event_type = 'Lock' and query like '%{}.%'",
        store.schema.as_str()
    )
}

/// A producer that does not wait for the disk is seen before a crash can no longer undo it: the claim waits in its place.
/// Once everything in a window is safe, claims wait only often enough to keep what a crash repeats within what is in
/// flight.
#[tokio::test]
async fn a_claim_waits_for_the_disk_if_its_events_are_not_safe_and_now_and_then_otherwise() {
    let store = store(&urls()[0]).await;
    // Other tests share the server: one of them may have waited for the disk just before the first claim.
    for attempt in 1.. {
        let waited = claims_that_wait(&store, &format!("s{attempt}")).await;
        if waited == [true, false, false, false, true, false, false, false, true, false] {
            return;
        }
        assert_eq!(waited, [false, false, false, true, false, false, false, true, false, false]);
        assert!(attempt < 50, "the first claim never waits");
    }
}

/// Claims ten pages of what a producer wrote that did not wait; whether each of them did.
async fn claims_that_wait(store: &PgStore, name: &str) -> Vec<bool> {
    let settings = |s: &mut crate::subscription::Settings| s.batch_size = 4;
    let subscription = Subscription::new(name).unwrap().topic(name).settings(settings);
    let reader = store.declare(&subscription).await.unwrap();
    let holder = Holder { worker: WorkerName::unique(), lease: Duration::from_secs(60) };
    let lane = store.claim_lane(&reader, &holder).await.unwrap().unwrap();
    let mut conn = store.pool.acquire().await.unwrap();
    conn.execute("set synchronous_commit = off").await.unwrap();
    let events: Vec<NewEvent> = (0..40_u8).map(|n| NewEvent::bytes(name, vec![n])).collect();
    store.enqueue(&mut conn, &events).await.unwrap();
    let written: String =
        sqlx::query_scalar("select pg_current_wal_insert_lsn()::text").fetch_one(&mut *conn).await.unwrap();
    let (mut cursor, mut waited) = (Cursor::Unknown, Vec::new());
    for _ in 0..10 {
        let fresh = store.claim_fresh(&reader, lane.lane, Some(lane.token), &holder, &mut cursor);
        assert!(matches!(fresh.await.unwrap(), Fresh::Batch(_)));
        let Cursor::Postgres(place) = &cursor else { panic!("a place") };
        waited.push(place.unflushed == 0);
        let safe = sqlx::query_scalar("select pg_current_wal_flush_lsn() >= $1::text::pg_lsn").bind(&written);
        assert!(
            safe.fetch_one(&store.pool).await.unwrap_or(false),
            "what was claimed can be undone by a crash"
        );
    }
    conn.execute("reset synchronous_commit").await.unwrap();
    waited
}
