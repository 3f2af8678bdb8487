//! What is special about SQLite.

use std::time::Duration;

use posthaste::inbox::{Mark, Once, OnceError, SqliteInbox};
use posthaste::{Error, Posthaste, sqlite_options};
use sqlx::{Executor, SqlitePool};

use super::bench::{Act, Bench, Pause, SqliteBench};

#[tokio::test]
async fn a_mark_lives_and_dies_with_the_callers_transaction() {
    let bench = SqliteBench::new().await;
    let inbox = bench.inbox("billing");
    for _ in 0..2 {
        let mut tx = bench.pool.begin_with("BEGIN IMMEDIATE").await.unwrap();
        assert_eq!(inbox.check_and_mark(&mut tx, "e-1").await.unwrap(), Mark::Fresh);
        assert_eq!(inbox.check_and_mark(&mut tx, "e-1").await.unwrap(), Mark::Duplicate);
        tx.rollback().await.unwrap();
    }
    let mut tx = bench.pool.begin_with("BEGIN IMMEDIATE").await.unwrap();
    assert_eq!(inbox.check_and_mark(&mut tx, "e-1").await.unwrap(), Mark::Fresh);
    tx.commit().await.unwrap();
    assert_eq!(bench.once("billing", "e-1", Act::Panic).await.unwrap(), Once::Duplicate);
    let mut tx = bench.pool.begin_with("BEGIN IMMEDIATE").await.unwrap();
    inbox.forget(&mut tx, "e-1").await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!(bench.once("billing", "e-1", Act::Succeed).await.unwrap(), Once::Done(()));
}

#[tokio::test]
async fn a_copy_beside_a_running_one_is_busy_after_its_busy_timeout() {
    let bench = SqliteBench::new().await;
    let (pause, first) = (Pause::new(), bench.clone());
    let act = pause.then(Act::Succeed);
    let running = tokio::spawn(async move { first.once("billing", "e-1", act).await });
    pause.entered().await;
    let impatient = sqlite_options(&bench.path).busy_timeout(Duration::from_millis(20));
    let pool = SqlitePool::connect_with(impatient).await.unwrap();
    let second = SqliteInbox::new(pool, "billing").unwrap();
    let answer = second.once("e-1", async |_| Ok::<_, ()>(())).await.unwrap();
    assert!(matches!(answer, Once::Busy { .. }), "{answer:?}");
    pause.go_on();
    assert_eq!(running.await.unwrap().unwrap(), Once::Done(()));
    assert_eq!(second.once("e-1", async |_| Ok::<_, ()>(())).await.unwrap(), Once::Duplicate);
}

#[tokio::test]
async fn an_effect_that_rolled_back_by_itself_is_not_done() {
    let bench = SqliteBench::new().await;
    let undone =
        bench.inbox("billing").once("e-1", async |tx| tx.execute("rollback").await.map(|_| ())).await;
    assert!(matches!(undone, Err(OnceError::Inbox(Error::MarkGone(id))) if id == "e-1"));
    assert_eq!(bench.once("billing", "e-1", Act::Succeed).await.unwrap(), Once::Done(()));
    assert_eq!(bench.effects("billing", "e-1").await, 1);
}

/// What the guide says: the database rolls back, and writes after that stand alone.
#[tokio::test]
async fn after_an_implicit_rollback_the_event_is_not_done_and_later_writes_stay() {
    let bench = SqliteBench::new().await;
    bench.pool.execute("create table one (n integer primary key); insert into one values (1)").await.unwrap();
    let undone = bench
        .inbox("billing")
        .once("e-1", async |tx| {
            tx.execute("insert into effects values ('billing', 'before')").await?;
            drop(tx.execute("insert or rollback into one values (1)").await);
            tx.execute("insert into effects values ('billing', 'after')").await.map(|_| ())
        })
        .await;
    let Err(OnceError::Inbox(error @ Error::MarkGone(_))) = undone else { panic!("{undone:?}") };
    assert!(error.to_string().contains("what it wrote after that may stand"), "{error}");
    assert_eq!(bench.effects("billing", "before").await, 0);
    assert_eq!(bench.effects("billing", "after").await, 1);
}

/// sqlx goes on counting the transaction, and would let nobody begin another on that connection.
#[tokio::test]
async fn a_connection_whose_transaction_the_database_ended_is_used_again() {
    let bench = SqliteBench::new().await;
    let one = sqlx::sqlite::SqlitePoolOptions::new().max_connections(1);
    let pool = one.connect_with(sqlite_options(&bench.path)).await.unwrap();
    let inbox = SqliteInbox::new(pool, "billing").unwrap();
    for swallow in [true, false] {
        let failed = inbox
            .once("e-1", async |tx| {
                tx.execute("rollback").await.unwrap();
                if swallow { Ok(()) } else { Err("the disk is full") }
            })
            .await;
        assert_eq!(matches!(failed, Err(OnceError::Inbox(Error::MarkGone(_)))), swallow, "{failed:?}");
        assert_eq!(matches!(failed, Err(OnceError::Effect(_))), !swallow, "{failed:?}");
    }
    assert_eq!(inbox.once("e-1", async |_| Ok::<_, ()>(())).await.unwrap(), Once::Done(()));
}

#[tokio::test]
async fn a_commit_by_hand_after_a_swallowed_rollback_is_refused() {
    let bench = SqliteBench::new().await;
    let inbox = bench.inbox("billing");
    let mut tx = bench.pool.begin_with("BEGIN IMMEDIATE").await.unwrap();
    assert_eq!(inbox.check_and_mark(&mut tx, "e-1").await.unwrap(), Mark::Fresh);
    tx.execute("rollback").await.unwrap();
    assert!(matches!(inbox.commit(tx, "e-1").await, Err(Error::MarkGone(id)) if id == "e-1"));
    let mut tx = bench.pool.begin_with("BEGIN IMMEDIATE").await.unwrap();
    assert_eq!(inbox.check_and_mark(&mut tx, "e-1").await.unwrap(), Mark::Fresh);
    inbox.commit(tx, "e-1").await.unwrap();
    assert_eq!(bench.once("billing", "e-1", Act::Panic).await.unwrap(), Once::Duplicate);
}

#[tokio::test]
async fn the_inbox_shares_a_file_with_a_log_and_migrates_at_once_with_others() {
    let bench = SqliteBench::new().await;
    Posthaste::sqlite(bench.pool.clone()).migrate().await.unwrap();
    let inbox = bench.inbox("billing");
    let (one, two) = tokio::join!(inbox.migrate(), inbox.migrate());
    one.unwrap();
    two.unwrap();
    bench.pool.execute("update posthaste_inbox_meta set version = 99").await.unwrap();
    assert!(inbox.migrate().await.unwrap_err().to_string().contains("use a newer Posthaste"));
}

/// Many files, because without patience only about one in a hundred is refused.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_new_file_is_migrated_by_many_at_once() {
    for _ in 0..40 {
        let (_folder, path) = posthaste_testkit::sqlite_file();
        let mut inboxes = Vec::new();
        for _ in 0..8 {
            let pool = SqlitePool::connect_with(sqlite_options(&path)).await.unwrap();
            inboxes.push(SqliteInbox::new(pool, "billing").unwrap());
        }
        let migrations = inboxes.iter().map(|inbox| {
            let inbox = inbox.clone();
            tokio::spawn(async move { inbox.migrate().await })
        });
        for migrated in futures::future::join_all(migrations.collect::<Vec<_>>()).await {
            migrated.unwrap().unwrap();
        }
    }
}

#[tokio::test]
async fn without_tables_the_error_says_what_to_do() {
    let pool = SqlitePool::connect("sqlite::memory:").await.unwrap();
    let inbox = SqliteInbox::new(pool, "billing").unwrap();
    let failed = inbox.once("e-1", async |_| Ok::<_, ()>(())).await;
    let Err(OnceError::Inbox(error @ Error::Schema(_))) = failed else { panic!("{failed:?}") };
    assert!(error.to_string().contains("run migrate"), "{error}");
}
