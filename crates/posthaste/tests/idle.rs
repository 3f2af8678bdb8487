//! An idle poll burns no transaction id and writes no WAL. Alone in its file: both are counted for the whole server.

use std::time::Duration;

use posthaste::Order;
use posthaste_testkit::suite::{Script, event, quick, until};
use posthaste_testkit::{TestDatabase, servers};
use sqlx::Row;

async fn written(db: &TestDatabase) -> (String, String) {
    let row = sqlx::query(
        "select pg_snapshot_xmax(pg_current_snapshot())::text as xid, pg_current_wal_insert_lsn()::text as wal",
    )
    .fetch_one(&db.pool)
    .await
    .unwrap();
    (row.get("xid"), row.get("wal"))
}

/// Statements that workers of this database ran since the last call, at least.
async fn polls_since(db: &TestDatabase, since: chrono::DateTime<chrono::Utc>) -> i64 {
    sqlx::query_scalar(
        "select count(*) from pg_stat_activity \
         where datname = current_database() and pid <> pg_backend_pid() and query_start > $1",
    )
    .bind(since)
    .fetch_one(&db.pool)
    .await
    .unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_idle_poll_burns_no_xid_and_writes_no_wal() {
    for server in servers() {
        let db = TestDatabase::on(&server).await;
        let polling = |order: Order| {
            quick(order.as_str()).order(order).topic("orders").settings(|s| {
                s.poll_interval = Duration::from_millis(5);
                s.lease = Duration::from_secs(600);
            })
        };
        let script = Script::accepting();
        let mut workers = Vec::new();
        for order in [Order::Key, Order::None, Order::Strict] {
            workers.push(db.posthaste.handler(polling(order), script.clone()).start().await.unwrap());
        }
        let mut tx = db.pool.begin().await.unwrap();
        db.posthaste.enqueue(&mut tx, event("k", "x")).await.unwrap();
        tx.commit().await.unwrap();
        script.accepted.wait_for(3).await;
        // The server has other clients, and the sign is put up now and then: one quiet spell with polls in it will do,
        // and there would be none if every poll wrote something.
        until("there is a spell with polls and nothing written", async || {
            let (before, since) = (written(&db).await, chrono::Utc::now());
            tokio::time::sleep(Duration::from_millis(100)).await;
            polls_since(&db, since).await >= 2 && written(&db).await == before
        })
        .await;
        for worker in workers {
            worker.stop().await;
        }
    }
}
