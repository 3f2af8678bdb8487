//! What operating means on SQLite alone.

#[expect(dead_code, reason = "shared by several test programs; this one uses its part")]
#[expect(unused_macros, reason = "its scenarios are for one database")]
mod admin_common;

use std::time::Duration;

use admin_common::*;
use posthaste::{ClaimBy, NewEvent, Posthaste, Subscription};
use posthaste_testkit::SqliteDatabase;

fn short(name: &str) -> Subscription {
    quick(name).settings(|s| s.lease = Duration::from_secs(1))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_has_nothing_to_rebase_or_to_keep() {
    let db = SqliteDatabase::new().await;
    let admin = db.posthaste.admin();
    assert!(admin.rebase().await.unwrap_err().to_string().contains("nothing to rebase"));
    assert!(admin.keep().await.unwrap_err().to_string().contains("nothing to keep"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_copied_file_goes_on_where_the_original_was() {
    let db = SqliteDatabase::new().await;
    let mut claims = db.posthaste.claims(&short("s")).await.unwrap();
    enqueue_numbered(&db, "k", 1..=3).await;
    assert_eq!(drain(&mut claims).await.len(), 3);
    enqueue_numbered(&db, "k", 4..=5).await;
    let copy = db.path.with_extension("copy");
    sqlx::query("vacuum into ?1").bind(copy.to_str().unwrap()).execute(&db.pool).await.unwrap();
    let restored = SqliteDatabase::open(&copy).await;
    let mut claims = restored.claims(&short("s")).await.unwrap();
    let mut texts = Vec::new();
    until("the lease that was copied along has run out", async || {
        texts.extend(drain(&mut claims).await);
        texts.len() >= 2
    })
    .await;
    assert_eq!(texts, ["k004", "k005"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_subscription_takes_its_rows_along_without_foreign_keys() {
    let db = SqliteDatabase::new().await;
    let options = posthaste::sqlite_options(&db.path).foreign_keys(false);
    let pool = sqlx::SqlitePool::connect_with(options).await.unwrap();
    let posthaste = Posthaste::sqlite(pool);
    let mut claims = posthaste.claims(&short("s")).await.unwrap();
    enqueue(&db, vec![event("a", "bad"), event("b", "b1")]).await;
    assert_eq!(drain(&mut claims).await, ["b1"]);
    let admin = posthaste.admin();
    until("the claimer's lease has run out", async || admin.delete_subscription("s").await.is_ok()).await;
    for table in ["batches", "deliveries", "lanes", "filters", "workers"] {
        let sql = format!("select count(*) from posthaste.{table}");
        assert_eq!(db.scalar(&sql).await, 0, "{table}");
    }
    assert_eq!(db.scalar("select count(*) from posthaste.events").await, 2, "the log stays");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_operational_queries_run_on_the_view() {
    let db = SqliteDatabase::new().await;
    enqueue(&db, ["bad", "later", "plain"].map(|body| event(body, body)).to_vec()).await;
    for claim_by in [ClaimBy::Batch, ClaimBy::Event] {
        let subscription = quick(&format!("s-{}", claim_by.as_str())).claim_by(claim_by);
        drain(&mut db.posthaste.claims(&subscription).await.unwrap()).await;
    }
    enqueue(&db, vec![NewEvent::bytes("orders", vec![0xff]).content_type("application/json")]).await;
    let seen = async |sql: &'static str| -> Vec<String> {
        sqlx::query_scalar(sql).fetch_all(&db.pool).await.unwrap()
    };
    let troubled = "select subscription || ' ' || key from posthaste_event_status
        where status in ('pending', 'dead') and attempts > 0 order by next_attempt_at, subscription";
    assert_eq!(seen(troubled).await, ["s-batch bad", "s-event bad", "s-batch later", "s-event later"]);
    let due = "select key from posthaste_event_status where status = 'pending' and attempts > 0
        and next_attempt_at <= strftime('%Y-%m-%dT%H:%M:%fZ', 'now')";
    assert!(seen(due).await.is_empty());
    db.run("update posthaste_deliveries set next_attempt_at = next_attempt_at - 7200000000").await;
    assert_eq!(seen(due).await, ["later", "later"]);
    let counted =
        "select status || ' ' || count(*) from posthaste_event_status group by status order by status";
    assert_eq!(seen(counted).await, ["dead 2", "delivered 2", "pending 4"]);
}
