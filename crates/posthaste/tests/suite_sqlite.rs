//! The store suite on SQLite.

use posthaste_testkit::SqliteDatabase;

async fn backends() -> Vec<SqliteDatabase> {
    vec![SqliteDatabase::new().await]
}

posthaste_testkit::store_suite!(backends);
