//! Every statement of the catalogue prepares on every supported server.

mod plans;

use sqlx::{AssertSqlSafe, Connection, Executor, PgConnection};

use super::PgStore;
use crate::id::SchemaName;

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
