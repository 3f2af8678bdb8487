//! Enqueue in the caller's transaction.

use sqlx::Row;
use uuid::Uuid;

use super::*;

#[tokio::test]
async fn a_rolled_back_enqueue_leaves_nothing() {
    let bench = Bench::new().await;
    let mut tx = bench.store.pool.begin().await.unwrap();
    bench.store.enqueue(&mut tx, &[event().dedupe_key("a"), event()]).await.unwrap();
    tx.rollback().await.unwrap();
    assert_eq!((bench.count("events").await, bench.count("dedupe_keys").await), (0, 0));
}

#[tokio::test]
async fn an_event_comes_back_as_it_was_enqueued() {
    let bench = Bench::new().await;
    let tenant = Uuid::now_v7();
    let payload = vec![0, 255, 10, 34];
    let enqueued = bench
        .enqueue(&[NewEvent::bytes("orders", payload.clone())
            .namespace("shop")
            .event_type("order.created")
            .aggregate("order", "o-1")
            .tenant(tenant)
            .header("Trace", "ü\t1")])
        .await;
    let reader = bench.subscribe(subscription()).await;
    let batch = bench.claim(&reader, &holder("w", LONG)).await;
    let got = &batch.events[0].event;
    assert_eq!((got.id, &got.payload, got.tenant_id), (enqueued[0].id, &payload, Some(tenant)));
    assert_eq!((got.namespace.as_str(), got.topic.as_str()), ("shop", "orders"));
    assert_eq!((got.key.as_deref(), got.aggregate_id.as_deref()), (Some("o-1"), Some("o-1")));
    assert_eq!(got.headers.get("trace"), Some("ü\t1"));
    assert_eq!((got.event_type.as_deref(), got.available_at), (Some("order.created"), None));
    assert!((chrono::Utc::now() - got.created_at).num_seconds() < 60);
}

#[tokio::test]
async fn events_of_one_call_keep_their_order() {
    let bench = Bench::new().await;
    let enqueued = bench.enqueue(&(0..20).map(|_| event()).collect::<Vec<_>>()).await;
    let reader = bench.subscribe(subscription()).await;
    let batch = bench.claim(&reader, &holder("w", LONG)).await;
    let order: Vec<EventId> = batch.events.iter().map(|claimed| claimed.event.id).collect();
    assert_eq!(order, enqueued.iter().map(|e| e.id).collect::<Vec<_>>());
    assert_eq!(seqs(&batch.events), (1..=20).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_dedupe_key_is_enqueued_once_within_and_across_calls() {
    let bench = Bench::new().await;
    let first =
        bench.enqueue(&[event().dedupe_key("a"), event().dedupe_key("a"), event().dedupe_key("b")]).await;
    assert_eq!(first.iter().map(|e| e.duplicate).collect::<Vec<_>>(), [false, true, false]);
    assert_eq!(first[0].id, first[1].id);
    let second = bench.enqueue(&[event().dedupe_key("b"), event().dedupe_key("b").namespace("other")]).await;
    assert_eq!((second[0].id, second[0].duplicate, second[1].duplicate), (first[2].id, true, false));
    assert_eq!(bench.count("events").await, 3);
}

#[tokio::test]
async fn an_expired_dedupe_key_is_taken_over() {
    let bench = Bench::new().await;
    let first = bench.enqueue(&[event().dedupe_key("a").dedupe_for(SHORT)]).await;
    outlast(SHORT).await;
    let second = bench.enqueue(&[event().dedupe_key("a"), event().dedupe_key("a")]).await;
    assert!(!second[0].duplicate && second[1].duplicate && second[0].id != first[0].id);
    assert_eq!(second[1].id, second[0].id);
}

#[tokio::test]
async fn a_call_that_fails_half_way_leaves_nothing_although_the_caller_goes_on() {
    let bench = Bench::new().await;
    sqlx::raw_sql(
        "create trigger refuse before insert on posthaste_events when new.topic = 'bad' \
         begin select raise(abort, 'refused'); end",
    )
    .execute(&bench.store.pool)
    .await
    .unwrap();
    let mut tx = bench.store.pool.begin().await.unwrap();
    bench.store.enqueue(&mut tx, &[event()]).await.unwrap();
    let events = [event().dedupe_key("a"), NewEvent::bytes("bad", b"".to_vec())];
    bench.store.enqueue(&mut tx, &events).await.unwrap_err();
    tx.commit().await.unwrap();
    assert_eq!((bench.count("events").await, bench.count("dedupe_keys").await), (1, 0));
}

#[tokio::test]
async fn a_transaction_begun_by_hand_is_respected() {
    let bench = Bench::new().await;
    let mut conn = bench.store.pool.acquire().await.unwrap();
    sqlx::query("begin immediate").execute(&mut *conn).await.unwrap();
    bench.store.enqueue(&mut conn, &[event(), event()]).await.unwrap();
    sqlx::query("rollback").execute(&mut *conn).await.unwrap();
    assert_eq!(bench.count("events").await, 0);
}

#[tokio::test]
async fn the_seq_of_a_deleted_event_is_never_given_again() {
    let bench = Bench::new().await;
    bench.enqueue(&[event(), event()]).await;
    sqlx::query("delete from posthaste_events").execute(&bench.store.pool).await.unwrap();
    bench.enqueue(&[event()]).await;
    let row = sqlx::query("select seq from posthaste_events").fetch_one(&bench.store.pool).await.unwrap();
    assert_eq!(row.get::<i64, _>("seq"), 3);
}

#[tokio::test]
async fn a_busy_database_is_a_conflict_for_the_caller() {
    let bench = Bench::new().await;
    let options = sqlite_options(bench.dir.path().join("log.db")).busy_timeout(Duration::from_millis(1));
    let impatient = sqlx::SqlitePool::connect_with(options).await.unwrap();
    let writing = bench.store.begin("test").await.unwrap();
    let mut conn = impatient.acquire().await.unwrap();
    let error = bench.store.enqueue(&mut conn, &[event()]).await.unwrap_err();
    assert_eq!(error.kind(), crate::error::ErrorKind::Conflict, "{error}");
    drop(writing);
}
