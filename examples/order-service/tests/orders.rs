//! The tests of the order service, as an application would write them.

use std::time::Duration;

use order_service::{REVIEW_AFTER, billing, create_tables, mark_paid, place_order, reviews};
use posthaste_testkit::{Expected, Flaky, Recorder, SqliteDatabase};
use serde_json::json;

async fn database() -> SqliteDatabase {
    let db = SqliteDatabase::new().await;
    create_tables(&db.pool).await.unwrap();
    db
}

async fn place(db: &SqliteDatabase, id: &str, total: i64) {
    let mut tx = db.pool.begin().await.unwrap();
    place_order(&db.posthaste, &mut tx, id, total).await.unwrap();
    tx.commit().await.unwrap();
}

// snippet: enqueued
#[tokio::test]
async fn an_order_is_told_in_the_transaction_that_keeps_it() {
    let db = database().await;
    let kit = db.kit();
    let mut tx = db.pool.begin().await.unwrap();
    let before = kit.mark(&mut tx).await;

    place_order(&db.posthaste, &mut tx, "o-1", 12).await.unwrap();

    // The transaction is still open: nobody else can see this yet.
    kit.enqueued_since(&mut tx, &before).await.assert_exactly([Expected::topic("orders")
        .event_type("order.placed")
        .key("o-1")
        .json(json!({ "order": "o-1", "total": 12 }))]);
    tx.rollback().await.unwrap();
    kit.enqueued_since(&mut db.pool.acquire().await.unwrap(), &before).await.assert_none();
}
// end snippet

#[tokio::test]
async fn an_order_that_cannot_be_kept_is_not_told() {
    let db = database().await;
    let mut conn = db.pool.acquire().await.unwrap();
    place(&db, "o-1", 12).await;
    let before = db.kit().mark(&mut conn).await;
    let mut tx = db.pool.begin().await.unwrap();
    assert!(place_order(&db.posthaste, &mut tx, "o-1", 13).await.is_err());
    drop(tx);
    db.kit().enqueued_since(&mut conn, &before).await.assert_none();
}

// snippet: retries
#[tokio::test]
async fn a_bill_that_fails_for_an_hour_is_sent_in_the_end_and_in_order() {
    let db = database().await;
    let kit = db.kit();
    for (id, total) in [("o-1", 12), ("o-2", 30)] {
        place(&db, id, total).await;
    }
    let bills = Recorder::around(Flaky::accepting().fail_first(4));

    let first = kit.run_until_idle(billing(&db.posthaste, bills.clone()).unwrap()).await;
    assert_eq!((first.delivered, first.retried, first.waiting().len()), (0, 2, 2));

    // One to eight minutes of backoff each time, in no time.
    let all = kit.run_until_settled(|| billing(&db.posthaste, bills.clone()).unwrap()).await;
    all.assert_all_delivered();
    assert_eq!((all.delivered, bills.attempts().len()), (2, 10));
}
// end snippet

// snippet: away
#[tokio::test]
async fn a_billing_service_that_is_away_costs_no_attempt_and_loses_nothing() {
    let db = database().await;
    place(&db, "o-1", 12).await;
    let bills = Flaky::accepting();
    bills.go_away("maintenance");
    let report = db.kit().run_until_idle(billing(&db.posthaste, bills.clone()).unwrap()).await;
    assert!(report.receiver_away && report.left[0].attempts == 0);

    bills.come_back();
    db.kit().run_until_idle(billing(&db.posthaste, bills).unwrap()).await.assert_all_delivered();
}
// end snippet

// snippet: delays
#[tokio::test]
async fn a_large_order_is_reviewed_after_a_day() {
    let db = database().await;
    let kit = db.kit();
    place(&db, "o-1", 5000).await;
    let reminders = Recorder::accepting();
    let worker = || reviews(&db.posthaste, reminders.clone()).unwrap();

    kit.advance(REVIEW_AFTER - Duration::from_secs(3600)).await;
    assert_eq!(kit.run_until_idle(worker()).await.waiting().len(), 1);

    kit.advance(Duration::from_secs(3600)).await;
    kit.run_until_idle(worker()).await.assert_all_delivered();
    assert_eq!(reminders.delivered()[0].dedupe_key.as_deref(), Some("review/o-1"));
}
// end snippet

#[tokio::test]
async fn a_bill_that_was_sent_marks_its_order_as_paid() {
    let db = database().await;
    place(&db, "o-1", 12).await;
    let pool = db.pool.clone();
    let handler = move |event| {
        let pool = pool.clone();
        async move { mark_paid(&pool, event).await }
    };
    db.kit().run_until_idle(billing(&db.posthaste, handler).unwrap()).await.assert_all_delivered();
    let paid: bool = sqlx::query_scalar("select paid from orders").fetch_one(&db.pool).await.unwrap();
    assert!(paid);
}
