//! What is special about PostgreSQL.

use posthaste::inbox::{GivenUp, Letter, Mark, Once, OnceError, PostgresInbox};
use posthaste::{Error, ErrorKind, Posthaste, SchemaName};
use posthaste_testkit::{TestDatabase, servers};
use sqlx::postgres::PgPoolOptions;
use sqlx::{AssertSqlSafe, Executor, PgConnection, PgPool};

use super::bench::{Act, Bench, Pause, PostgresBench, bounded};

async fn mark(inbox: &PostgresInbox, tx: &mut PgConnection) -> posthaste::Result<Mark> {
    inbox.check_and_mark(tx, "e-1").await
}

#[tokio::test]
async fn a_mark_lives_and_dies_with_the_callers_transaction() {
    let bench = PostgresBench::new().await;
    let inbox = bench.inbox("billing");
    for _ in 0..2 {
        let mut tx = bench.pool.begin().await.unwrap();
        assert_eq!(mark(&inbox, &mut tx).await.unwrap(), Mark::Fresh);
        assert_eq!(mark(&inbox, &mut tx).await.unwrap(), Mark::Duplicate);
        tx.rollback().await.unwrap();
    }
    let mut tx = bench.pool.begin().await.unwrap();
    assert_eq!(mark(&inbox, &mut tx).await.unwrap(), Mark::Fresh);
    tx.commit().await.unwrap();
    assert_eq!(bench.once("billing", "e-1", Act::Panic).await.unwrap(), Once::Duplicate);
    let mut tx = bench.pool.begin().await.unwrap();
    inbox.forget(&mut tx, "e-1").await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!(bench.once("billing", "e-1", Act::Succeed).await.unwrap(), Once::Done(()));
}

/// A consumer's loop runs in a task: the future must be `Send`, also when the effect borrows and calls the inbox itself.
#[tokio::test]
async fn an_effect_that_borrows_what_it_needs_runs_in_a_task() {
    let bench = PostgresBench::new().await;
    let (inbox, id, body) = (bench.inbox("billing"), "e-1".to_owned(), b"body".to_vec());
    let consuming = tokio::spawn(async move {
        let letter = posthaste::inbox::Letter::new(&id, body.clone(), "why");
        inbox
            .once(&id, async |tx| {
                let insert = sqlx::query("insert into effects values ('billing', $1)").bind(&id);
                insert.execute(&mut *tx).await?;
                inbox.give_up(tx, &letter).await?;
                Ok::<_, Box<dyn std::error::Error + Send + Sync>>(body.len())
            })
            .await
    });
    assert_eq!(consuming.await.unwrap().unwrap(), Once::Done(4));
    assert_eq!(bench.effects("billing", "e-1").await, 1);
}

/// What the transaction that gives up has marked is seen by the one that lets in again and had to wait for it.
#[tokio::test]
async fn a_letter_let_in_beside_one_that_gives_up_again_is_let_in() {
    let bench = PostgresBench::new().await;
    let (inbox, letter) = (bench.inbox("billing"), Letter::new("e-1", "x", "why"));
    let letters = inbox.dead_letters();
    let mut tx = bench.pool.begin().await.unwrap();
    let number = inbox.give_up(&mut tx, &letter).await.unwrap();
    tx.commit().await.unwrap();
    assert!(letters.resent(number).await.unwrap());
    let mut giving_up = bench.pool.begin().await.unwrap();
    assert_eq!(inbox.give_up(&mut giving_up, &letter).await.unwrap(), number);
    let ending = async {
        until_somebody_waits(&bench.pool).await;
        giving_up.commit().await.unwrap();
    };
    let (resent, ()) = tokio::join!(letters.resent(number), ending);
    assert!(resent.unwrap());
    assert_eq!(bench.once("billing", "e-1", Act::Succeed).await.unwrap(), Once::Done(()));
}

/// Waits until a connection of this database waits for a lock.
async fn until_somebody_waits(pool: &PgPool) {
    let waiting = "select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'";
    let wait = async {
        while sqlx::query_scalar::<_, i64>(waiting).fetch_one(pool).await.unwrap() == 0 {
            tokio::task::yield_now().await;
        }
    };
    bounded(wait).await;
}

#[tokio::test]
async fn a_second_copy_waits_for_the_first_and_goes_by_what_became_of_it() {
    let bench = PostgresBench::new().await;
    let inbox = bench.inbox("billing");
    for (commits, expected) in [(false, Mark::Fresh), (true, Mark::Duplicate)] {
        let (mut first, mut second) = (bench.pool.begin().await.unwrap(), bench.pool.begin().await.unwrap());
        assert_eq!(mark(&inbox, &mut first).await.unwrap(), Mark::Fresh);
        let ending = async {
            until_somebody_waits(&bench.pool).await;
            if commits { first.commit().await.unwrap() } else { first.rollback().await.unwrap() }
        };
        let (marked, ()) = tokio::join!(mark(&inbox, &mut second), ending);
        assert_eq!(marked.unwrap(), expected);
        second.rollback().await.unwrap();
    }
}

async fn pool_with(bench: &PostgresBench, option: (&str, &str)) -> PgPool {
    let options = (*bench.pool.connect_options()).clone().options([option]);
    PgPoolOptions::new().max_connections(2).connect_with(options).await.unwrap()
}

#[tokio::test]
async fn a_copy_beside_a_running_one_is_busy_after_a_lock_timeout() {
    let bench = PostgresBench::new().await;
    let (pause, first) = (Pause::new(), bench.clone());
    let act = pause.then(Act::Succeed);
    let running = tokio::spawn(async move { first.once("billing", "e-1", act).await });
    pause.entered().await;
    let impatient = PostgresInbox::new(pool_with(&bench, ("lock_timeout", "20ms")).await, "billing").unwrap();
    let answer = impatient.once("e-1", async |_| Ok::<_, ()>(())).await.unwrap();
    assert!(matches!(answer, Once::Busy { .. }), "{answer:?}");
    pause.go_on();
    assert_eq!(running.await.unwrap().unwrap(), Once::Done(()));
    assert_eq!(impatient.once("e-1", async |_| Ok::<_, ()>(())).await.unwrap(), Once::Duplicate);
}

#[tokio::test]
async fn under_repeatable_read_a_copy_beside_a_committed_one_is_told_to_run_again() {
    let bench = PostgresBench::new().await;
    let inbox = bench.inbox("billing");
    let mut second = bench.pool.begin().await.unwrap();
    second.execute("set transaction isolation level repeatable read; select 1").await.unwrap();
    assert_eq!(bench.once("billing", "e-1", Act::Succeed).await.unwrap(), Once::Done(()));
    assert_eq!(mark(&inbox, &mut second).await.unwrap_err().kind(), ErrorKind::Conflict);
}

/// A COMMIT after a failed statement is a silent ROLLBACK: without a look at the mark this would be Done, and lost.
#[tokio::test]
async fn an_effect_that_swallowed_a_failed_statement_is_not_done() {
    let bench = PostgresBench::new().await;
    let swallowed = bench
        .inbox("billing")
        .once("e-1", async |tx| {
            tx.execute("insert into effects values ('billing', 'e-1')").await?;
            drop(tx.execute("select 1 / 0").await);
            Ok::<_, sqlx::Error>(())
        })
        .await;
    assert!(matches!(swallowed, Err(OnceError::Inbox(_))), "{swallowed:?}");
    assert_eq!(bench.effects("billing", "e-1").await, 0);
    assert_eq!(bench.once("billing", "e-1", Act::Succeed).await.unwrap(), Once::Done(()));
}

/// The same, marked by hand: the database says that it has committed, and has not.
#[tokio::test]
async fn a_commit_by_hand_after_a_swallowed_error_is_refused() {
    let bench = PostgresBench::new().await;
    let inbox = bench.inbox("billing");
    for swallowed in ["select 1 / 0", "rollback"] {
        let mut tx = bench.pool.begin().await.unwrap();
        assert_eq!(mark(&inbox, &mut tx).await.unwrap(), Mark::Fresh);
        tx.execute("insert into effects values ('billing', 'e-1')").await.unwrap();
        drop(tx.execute(swallowed).await);
        inbox.commit(tx, "e-1").await.expect_err(swallowed);
        assert_eq!(bench.effects("billing", "e-1").await, 0);
    }
    let mut tx = bench.pool.begin().await.unwrap();
    assert_eq!(mark(&inbox, &mut tx).await.unwrap(), Mark::Fresh);
    inbox.commit(tx, "e-1").await.unwrap();
    assert_eq!(bench.once("billing", "e-1", Act::Panic).await.unwrap(), Once::Duplicate);
}

#[tokio::test]
async fn an_effect_that_rolled_back_by_itself_is_not_done() {
    let bench = PostgresBench::new().await;
    let undone =
        bench.inbox("billing").once("e-1", async |tx| tx.execute("rollback").await.map(|_| ())).await;
    assert!(matches!(undone, Err(OnceError::Inbox(Error::MarkGone(id))) if id == "e-1"));
    assert_eq!(bench.once("billing", "e-1", Act::Succeed).await.unwrap(), Once::Done(()));
    assert_eq!(bench.effects("billing", "e-1").await, 1);
}

#[tokio::test]
async fn a_connection_that_breaks_during_the_effect_leaves_nothing() {
    let bench = PostgresBench::new().await;
    let broken = bench
        .inbox("billing")
        .once("e-1", async |tx| {
            tx.execute("insert into effects values ('billing', 'e-1')").await?;
            drop(tx.execute("select pg_terminate_backend(pg_backend_pid())").await);
            Ok::<_, sqlx::Error>(())
        })
        .await;
    assert!(matches!(broken, Err(OnceError::Inbox(error)) if error.kind() == ErrorKind::Unavailable));
    assert_eq!(bench.effects("billing", "e-1").await, 0);
    assert_eq!(bench.once("billing", "e-1", Act::Succeed).await.unwrap(), Once::Done(()));
    assert_eq!(bench.effects("billing", "e-1").await, 1);
}

/// The grants of the guide, word for word, and nothing else.
fn grants(role: &str) -> String {
    let guide = include_str!("../../../../docs/guide/consume.md");
    let from = guide.find("grant usage on schema posthaste_inbox").expect("the grants stand in the guide");
    let block = &guide[from..];
    block[..block.find("```").unwrap()].replace("consumer_role", role)
}

#[tokio::test]
async fn a_role_with_the_grants_of_the_guide_can_do_all_a_consumer_does() {
    let bench = PostgresBench::new().await;
    let role = format!("consumer_{:08x}", fastrand::u32(..));
    let create = format!("create role {role} login; grant all on effects to {role}");
    sqlx::raw_sql(AssertSqlSafe(create)).execute(&bench.pool).await.unwrap();
    let options = (*bench.pool.connect_options()).clone().username(&role);
    let pool = PgPool::connect_with(options).await.unwrap();
    let inbox = PostgresInbox::new(pool.clone(), "billing").unwrap();
    let denied = inbox.once("e-1", async |_| Ok::<_, ()>(())).await;
    assert!(matches!(denied, Err(OnceError::Inbox(_))), "without the grants: {denied:?}");
    sqlx::raw_sql(AssertSqlSafe(grants(&role))).execute(&bench.pool).await.unwrap();
    inbox.migrate().await.expect("up to date, so nothing to create");
    let letter = posthaste::inbox::Letter::new("e-2", "x", "why");
    let done = inbox
        .once("e-1", async |tx| {
            tx.execute("insert into effects values ('billing', 'e-1')").await?;
            inbox.give_up(tx, &letter).await?;
            inbox.give_up(tx, &letter).await?;
            Ok::<_, Box<dyn std::error::Error>>(())
        })
        .await;
    assert_eq!(done.unwrap(), Once::Done(()));
    inbox.clean().await.unwrap();
    let letters = inbox.dead_letters();
    let listed = letters.list(&Default::default()).await.unwrap();
    assert_eq!(listed.len(), 1);
    let number = listed[0].number;
    assert!(letters.resent(number).await.unwrap() && !letters.discard(number).await.unwrap());
    let mut tx = pool.begin().await.unwrap();
    assert_eq!(inbox.give_up_unless_done(&mut tx, &letter).await.unwrap(), GivenUp::Kept(number));
    tx.commit().await.unwrap();
    assert!(letters.discard(number).await.unwrap());
    let mut tx = pool.begin().await.unwrap();
    inbox.forget(&mut tx, "e-1").await.unwrap();
    tx.commit().await.unwrap();
    sqlx::raw_sql(AssertSqlSafe(format!("drop owned by {role}; drop role {role}")))
        .execute(&bench.pool)
        .await
        .unwrap();
}

#[tokio::test]
async fn the_tables_are_made_on_every_server_by_many_at_once_and_beside_a_log() {
    for server in servers() {
        let db = TestDatabase::on(&server).await;
        // In the schema of the log, of all places.
        let inbox =
            PostgresInbox::new_in(db.pool.clone(), SchemaName::parse("posthaste").unwrap(), "billing")
                .unwrap();
        let (one, two) = tokio::join!(inbox.migrate(), inbox.migrate());
        one.unwrap();
        two.unwrap();
        Posthaste::postgres(db.pool.clone()).migrate().await.unwrap();
        assert_eq!(inbox.once("e-1", async |_| Ok::<_, ()>(())).await.unwrap(), Once::Done(()));
        assert!(inbox.migration_sql()[0].contains("create table posthaste.handled"));
        db.pool.execute("update posthaste.inbox_meta set version = 99").await.unwrap();
        assert!(inbox.migrate().await.unwrap_err().to_string().contains("use a newer Posthaste"));
    }
}

#[tokio::test]
async fn without_tables_the_error_says_what_to_do() {
    let db = TestDatabase::empty_on(&servers()[0]).await;
    let inbox = PostgresInbox::new(db.pool, "billing").unwrap();
    let failed = inbox.once("e-1", async |_| Ok::<_, ()>(())).await;
    let Err(OnceError::Inbox(error @ Error::Schema(_))) = failed else { panic!("{failed:?}") };
    assert!(error.to_string().contains("run migrate"), "{error}");
}

#[tokio::test]
async fn old_marks_go_in_chunks_and_young_ones_stay() {
    let bench = PostgresBench::new().await;
    let fill = "insert into posthaste_inbox.handled (consumer, event_id, expires_at)
        select 'billing', n::text, clock_timestamp() + case when n > 2500 then interval '1 h' else interval '-1 s' end
        from generate_series(1, 2510) n";
    bench.pool.execute(fill).await.unwrap();
    assert_eq!(bench.inbox("billing").clean().await.unwrap(), 2500);
    assert_eq!(bench.inbox("billing").clean().await.unwrap(), 0);
    let left: i64 = sqlx::query_scalar("select count(*) from posthaste_inbox.handled")
        .fetch_one(&bench.pool)
        .await
        .unwrap();
    assert_eq!(left, 10);
}
