//! A pooler before a server of one's own.

use std::collections::BTreeSet;

use posthaste_testkit::{PgBouncer, PoolMode, PrivatePostgres};
use sqlx::{Connection, Executor, PgConnection};

/// Which processes of the server did the transactions of each of two clients that take turns.
async fn servers_of(pooler: &PgBouncer) -> [BTreeSet<i32>; 2] {
    let mut clients = [connect(pooler).await, connect(pooler).await];
    let mut seen = [BTreeSet::new(), BTreeSet::new()];
    for _ in 0..2 {
        for (client, seen) in clients.iter_mut().zip(&mut seen) {
            // A statement with a name would still be there for the next client, or not there any more for this one.
            let asked =
                sqlx::query_scalar("select pg_backend_pid()").persistent(false).fetch_one(client).await;
            seen.insert(asked.expect("asked"));
        }
    }
    seen
}

async fn connect(pooler: &PgBouncer) -> PgConnection {
    PgConnection::connect(&pooler.url()).await.expect("let in")
}

#[tokio::test]
async fn clients_share_a_connection_transaction_by_transaction_or_keep_theirs() {
    let server = PrivatePostgres::start(&[]).await.expect("a server");
    let started = PgBouncer::before(&server.url(), PoolMode::Transaction, 1).await;
    let pooler = match started {
        Err(reason) if reason.contains("missing") => return eprintln!("skipped: {reason}"),
        started => started.expect("a pooler"),
    };
    let [one, two] = servers_of(&pooler).await;
    assert_eq!((one.len(), &one), (1, &two), "there is one connection for both");
    let pooler = PgBouncer::before(&server.url(), PoolMode::Session, 2).await.expect("a pooler");
    let [one, two] = servers_of(&pooler).await;
    assert!(one.is_disjoint(&two), "each has its own");
    let mut client = connect(&pooler).await;
    pooler.kill();
    assert!(client.execute("select 1").await.is_err());
    pooler.bring_back().await.expect("back");
    connect(&pooler).await.execute("select 1").await.expect("let in again");
}
