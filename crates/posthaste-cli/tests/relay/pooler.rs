//! A pooler in transaction mode before the database: what a person is told who does not know of it, and that the remedy is one.

use posthaste_testkit::{PgBouncer, PoolMode, servers};
use sqlx::{Connection, PgConnection};

use crate::log::Log;
use crate::support::{Ended, Folder};

#[tokio::test(flavor = "multi_thread")]
async fn a_pooler_in_transaction_mode_is_named_and_the_remedy_works() {
    let log = Log::postgres(&servers()[0]).await;
    // One connection to the server: whoever comes second finds the statements of the first.
    let pooler = match PgBouncer::before(&log.url, PoolMode::Transaction, 1).await {
        Err(reason) if reason.contains("missing") => return eprintln!("skipped: {reason}"),
        started => started.expect("a pooler"),
    };
    let folder = Folder::new();
    let database = format!("[database]\nurl = {:?}\n", pooler.url());
    let status = || Ended::of(folder.command(&["status"]).output().expect("it runs"));
    folder.write("posthaste.toml", &database);
    // The first stays: the pooler drops a connection to the server, and its statements, with a client that leaves in the
    // middle of an answer.
    let mut first = PgConnection::connect(&pooler.url()).await.expect("a connection");
    sqlx::query("select 1").execute(&mut first).await.expect("a statement with a name");
    let second = status();
    assert_eq!(second.code, Some(78), "{}{}", second.stdout, second.stderr);
    for words in
        ["a pooler in transaction mode stands before", "set prepared_statements = false in [database]"]
    {
        assert!(second.stderr.contains(words), "{}", second.stderr);
    }
    folder.write("posthaste.toml", format!("{database}prepared_statements = false\n"));
    for _ in 0..3 {
        let ended = status();
        assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    }
}
