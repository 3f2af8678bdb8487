//! An idle poll burns no transaction id and writes nothing. Transaction ids are counted for the whole server, which has
//! other clients: so the connections of this database are watched, many times, for a transaction that has one.

use std::time::Duration;

use posthaste::Order;
use posthaste_testkit::suite::{Script, event, quick};
use posthaste_testkit::{TestDatabase, servers};
use sqlx::{Connection, Executor, PgConnection};

/// How often, in a thousand looks, some other connection of this database was in a transaction with an xid.
async fn xids_seen(watcher: &mut PgConnection) -> usize {
    let mut seen = 0;
    for _ in 0..1000 {
        let holding: i64 = sqlx::query_scalar(
            "select count(*) from pg_stat_activity \
             where datname = current_database() and pid <> pg_backend_pid() and backend_xid is not null \
             and backend_type = 'client backend'",
        )
        .fetch_one(&mut *watcher)
        .await
        .unwrap();
        seen += usize::from(holding > 0);
    }
    seen
}

#[tokio::test(flavor = "multi_thread")]
async fn an_idle_poll_burns_no_xid() {
    for server in servers() {
        let db = TestDatabase::on(&server).await;
        let mut watcher = PgConnection::connect_with(&db.options).await.unwrap();
        let polling = |order: Order| {
            quick(order.as_str()).order(order).settings(|s| {
                s.poll_interval = Duration::from_millis(3);
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
        tokio::time::sleep(Duration::from_millis(500)).await;
        let idle = xids_seen(&mut watcher).await;

        // The control: somebody who draws one all the time is seen.
        let burning = tokio::spawn({
            let pool = db.pool.clone();
            async move {
                loop {
                    let mut tx = pool.begin().await.unwrap();
                    tx.execute("select pg_current_xact_id()").await.unwrap();
                    tx.execute("select 1").await.unwrap();
                    tx.commit().await.unwrap();
                }
            }
        });
        let control = xids_seen(&mut watcher).await;
        burning.abort();
        for worker in workers {
            worker.stop().await;
        }
        println!("PostgreSQL ({}): {idle} xids seen in idle polls, {control} in the control", server.name);
        assert!(control >= 20, "the control must be seen, else this test sees nothing: {control}");
        assert!(idle * 20 <= control, "putting up the sign may be seen, polls not: {idle}");
    }
}
