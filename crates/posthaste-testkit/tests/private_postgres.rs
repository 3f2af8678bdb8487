//! Servers of one's own: what a crash leaves, what a replica has, what a dump carries, and who is let in.

use std::process::Command;
use std::time::Duration;

use posthaste_testkit::brokers::certificate::{Certificate, Flaw};
use posthaste_testkit::{PrivatePostgres, Tmpfs, program};
use sqlx::{AssertSqlSafe, Connection, Executor, PgConnection};

async fn start() -> PrivatePostgres {
    PrivatePostgres::start(&[]).await.expect("a server")
}

async fn connect(server: &PrivatePostgres) -> PgConnection {
    PgConnection::connect(&server.url()).await.expect("let in")
}

async fn run(server: &PrivatePostgres, statement: &str) {
    connect(server).await.execute(AssertSqlSafe(statement)).await.expect(statement);
}

async fn numbers(server: &PrivatePostgres) -> Vec<i32> {
    let mut conn = connect(server).await;
    sqlx::query_scalar("select n from numbers order by n").fetch_all(&mut conn).await.expect("numbers")
}

const TABLE: &str = "create table numbers (n int)";

#[tokio::test]
async fn what_was_committed_survives_a_crash_and_what_was_not_is_gone() {
    let server = start().await;
    run(&server, TABLE).await;
    run(&server, "insert into numbers values (1)").await;
    let mut open = connect(&server).await;
    open.execute("begin; insert into numbers values (2)").await.expect("inserted");
    server.crash().await;
    assert!(!server.is_running());
    assert!(open.execute("commit").await.is_err());
    assert!(PgConnection::connect(&server.url()).await.is_err());
    server.start_again().await.expect("started");
    assert_eq!(numbers(&server).await, [1]);
    assert_eq!(server.log().matches("automatic recovery in progress").count(), 1, "{}", server.log());
    // The control: a stop in order needs no recovery.
    server.stop().await;
    server.start_again().await.expect("started");
    assert_eq!(numbers(&server).await, [1]);
    assert_eq!(server.log().matches("automatic recovery in progress").count(), 1, "{}", server.log());
}

#[tokio::test]
async fn a_promoted_replica_has_what_reached_it_and_nothing_else() {
    let primary = start().await;
    run(&primary, TABLE).await;
    let replica = primary.replica().await.expect("a replica");
    run(&primary, "insert into numbers values (1)").await;
    replica.until_caught_up(&primary).await.expect("caught up");
    assert_eq!(numbers(&replica).await, [1]);
    let refused = connect(&replica).await.execute("insert into numbers values (0)").await;
    assert!(refused.is_err(), "it only reads");
    replica.cut_replication().await;
    run(&primary, "insert into numbers values (2)").await;
    replica.mend_replication().await;
    replica.until_caught_up(&primary).await.expect("caught up");
    assert_eq!(numbers(&replica).await, [1, 2]);
    replica.cut_replication().await;
    run(&primary, "insert into numbers values (3)").await;
    replica.promote().await.expect("promoted");
    run(&replica, "insert into numbers values (4)").await;
    assert_eq!(numbers(&primary).await, [1, 2, 3]);
    assert_eq!(numbers(&replica).await, [1, 2, 4]);
}

#[tokio::test]
async fn a_dump_carries_a_database_and_its_roles_to_another_server() {
    let (from, to) = (start().await, start().await);
    run(&from, "create database shop").await;
    run(&from, "create role clerk").await;
    let mut conn = PgConnection::connect(&from.url_of("shop")).await.expect("let in");
    let create =
        "create table numbers (n int); insert into numbers values (1), (2); grant select on numbers to clerk";
    conn.execute(create).await.expect("created");
    from.dump_to(&to, "shop").await.expect("carried over");
    let mut conn = PgConnection::connect(&to.url_of("shop")).await.expect("let in");
    conn.execute("set role clerk").await.expect("the role is there");
    let sum: i64 =
        sqlx::query_scalar("select sum(n) from numbers").fetch_one(&mut conn).await.expect("granted");
    assert_eq!(sum, 3);
}

#[tokio::test]
async fn a_full_disk_refuses_and_takes_again_what_it_has_room_for() {
    let tmpfs = match Tmpfs::mount(150) {
        Err(reason) => return eprintln!("skipped: {reason}"),
        Ok(tmpfs) => tmpfs,
    };
    let server = PrivatePostgres::setup().data_in(tmpfs.path()).wal_apart().start().await.expect("a server");
    run(&server, TABLE).await;
    run(&server, "insert into numbers values (1)").await;
    tmpfs.fill();
    let many = "insert into numbers select generate_series(1, 100000)";
    let refused = connect(&server).await.execute(many).await.expect_err("there is no room");
    assert_eq!(refused.as_database_error().and_then(|error| error.code()).as_deref(), Some("53100"));
    assert!(server.is_running());
    tmpfs.make_room();
    run(&server, "insert into numbers values (2)").await;
    assert_eq!(numbers(&server).await, [1, 2]);
}

#[tokio::test]
async fn a_server_without_room_for_its_log_ends_and_comes_back_with_everything() {
    let tmpfs = match Tmpfs::mount(150) {
        Err(reason) => return eprintln!("skipped: {reason}"),
        Ok(tmpfs) => tmpfs,
    };
    let server = PrivatePostgres::setup().data_in(tmpfs.path()).start().await.expect("a server");
    run(&server, TABLE).await;
    run(&server, "insert into numbers values (1)").await;
    tmpfs.fill();
    let much = "select pg_logical_emit_message(true, 'x', repeat('x', 40000000))";
    assert!(connect(&server).await.execute(much).await.is_err());
    until(async || (!server.is_running()).then_some(())).await;
    let refused = server.start_again().await.expect_err("there is no room");
    assert!(refused.contains("No space left"), "{refused}");
    tmpfs.make_room();
    server.start_again().await.expect("there is room");
    assert_eq!(numbers(&server).await, [1]);
}

#[tokio::test]
async fn a_changed_password_shuts_out_whoever_has_the_old_one() {
    let setup = PrivatePostgres::setup().password("first");
    let server = setup.start().await.expect("a server");
    let old = server.url();
    let mut open = connect(&server).await;
    assert!(PgConnection::connect(&old.replace("first", "wrong")).await.is_err());
    server.change_password("second").await.expect("changed");
    assert!(PgConnection::connect(&old).await.is_err());
    open.execute("select 1").await.expect("who is in stays in");
    run(&server, TABLE).await;
    let replica = server.replica().await.expect("it knows the password");
    assert_eq!(numbers(&replica).await, [0; 0]);
}

/// Whether a careful client accepts the server.
fn is_trusted(server: &PrivatePostgres, certificate: &Certificate) -> Result<(), String> {
    let target = format!(
        "host=localhost hostaddr=127.0.0.1 port={} user=postgres sslmode=verify-full sslrootcert={}",
        server.port(),
        certificate.ca_file.display()
    );
    let psql = program("psql").expect("it comes with the server");
    let output = Command::new(psql).args([&target, "-c", "select 1"]).output().expect("psql");
    if output.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&output.stderr).into_owned()) }
}

#[tokio::test]
async fn a_flawed_certificate_is_seen_by_whoever_looks() {
    let folder = tempfile::tempdir().expect("a folder");
    let good = Certificate::make(folder.path()).expect("openssl");
    let server = PrivatePostgres::setup().tls(&good).start().await.expect("a server");
    is_trusted(&server, &good).expect("a good certificate");
    let flaws = [
        (Flaw::Expired, "verify failed"),
        (Flaw::WrongHost, "does not match"),
        (Flaw::SelfSigned, "verify failed"),
    ];
    for (flaw, word) in flaws {
        let folder = tempfile::tempdir().expect("a folder");
        let flawed = Certificate::flawed(flaw, folder.path()).expect("openssl");
        server.change_certificate(&flawed).await.expect("changed");
        let refused = is_trusted(&server, &flawed).expect_err("a flaw");
        assert!(refused.contains(word), "{flaw:?}: {refused}");
    }
    server.change_certificate(&good).await.expect("changed");
    is_trusted(&server, &good).expect("a good certificate");
}

/// The helper of the test below: a process that has a server and is killed.
const CHILD: &str = "POSTHASTE_TEST_CHILD_WITH_SERVER";

#[tokio::test]
async fn a_killed_test_leaves_no_server_behind() {
    if let Some(file) = std::env::var_os(CHILD) {
        let server = start().await;
        std::fs::write(file, server.url()).expect("told");
        return std::future::pending().await;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let told = folder.path().join("url");
    let mut command = Command::new(std::env::current_exe().expect("this test"));
    command.args(["--exact", "a_killed_test_leaves_no_server_behind"]).env(CHILD, &told);
    let mut child = posthaste_testkit::Process::start(&mut command, &folder.path().join("log"));
    let url = until(async || std::fs::read_to_string(&told).ok().filter(|url| !url.is_empty())).await;
    PgConnection::connect(&url).await.expect("it runs");
    child.kill();
    until(async || PgConnection::connect(&url).await.is_err().then_some(())).await;
}

async fn until<T>(fact: impl AsyncFn() -> Option<T>) -> T {
    for _ in 0..6_000 {
        if let Some(found) = fact().await {
            return found;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("it never came true");
}
