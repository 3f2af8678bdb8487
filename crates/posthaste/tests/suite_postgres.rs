//! The store suite on PostgreSQL, on every server there is, by somebody who may enqueue and deliver and nothing else: whatever
//! a producer or a worker does, the roles `posthaste_producer` and `posthaste_relay` have the right to.

use posthaste_testkit::{TestDatabase, servers};

async fn backends() -> Vec<TestDatabase> {
    let mut databases = Vec::new();
    for server in servers() {
        databases.push(TestDatabase::on(&server).await.as_member_of(&["producer", "relay"]).await);
    }
    databases
}

posthaste_testkit::store_suite!(backends);
