//! The store suite on PostgreSQL, on every server there is.

use posthaste_testkit::{TestDatabase, servers};

async fn backends() -> Vec<TestDatabase> {
    let mut databases = Vec::new();
    for server in servers() {
        databases.push(TestDatabase::on(&server).await);
    }
    databases
}

posthaste_testkit::store_suite!(backends);
