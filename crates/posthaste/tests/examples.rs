//! The examples, run as they are: each asserts its own claims.

use posthaste_testkit::{TestDatabase, servers};

macro_rules! example {
    ($name:ident, $path:literal) => {
        #[path = $path]
        #[expect(dead_code, reason = "the tests call `run`, not `main`")]
        mod $name;
    };
}
example!(multi_listener, "../examples/multi_listener.rs");
example!(usage_outbox, "../examples/usage_outbox.rs");
example!(transactional_handler, "../examples/transactional_handler.rs");
example!(enqueue_from_sql, "../examples/enqueue_from_sql.rs");

#[tokio::test(flavor = "multi_thread")]
async fn multi_listener_runs() {
    multi_listener::run().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn usage_outbox_runs() {
    usage_outbox::run().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn transactional_handler_runs_twice_on_one_database() {
    for server in servers() {
        let database = TestDatabase::empty_on(&server).await;
        for _ in 0..2 {
            transactional_handler::run(database.pool.clone()).await.unwrap();
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn enqueue_from_sql_runs_twice_on_one_database() {
    for server in servers() {
        let database = TestDatabase::empty_on(&server).await;
        for _ in 0..2 {
            enqueue_from_sql::run(database.pool.clone()).await.unwrap();
        }
    }
}
