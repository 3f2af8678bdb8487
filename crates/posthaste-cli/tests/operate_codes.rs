//! The exit codes of the reference, each met on purpose: before the connection, at it, and in the middle of a command.

#[expect(dead_code, reason = "shared by several test programs; this one uses its part")]
mod operate_common;

use std::net::TcpListener;

use operate_common::*;
use posthaste_testkit::{TestDatabase, servers};
use sqlx::{AssertSqlSafe, ConnectOptions, Connection, PgPool, SqliteConnection};

const ID: &str = "0198c5d2-7c1e-7a43-9f5b-2b1c6a1f0e11";

/// Whatever needs a database and ends by itself.
const ASKING: [&[&str]; 13] = [
    &["status"],
    &["subscriptions", "list"],
    &["subscriptions", "pause", "billing"],
    &["events", "list"],
    &["events", "list", "-f"],
    &["events", "enqueue", "orders", "x"],
    &["dead", "list"],
    &["keys", "blocked"],
    &["replay", "billing", "--from", "1h", "--yes"],
    &["why", ID],
    &["retain", "--older-than", "30d"],
    &["check"],
    &["doctor"],
];

fn expect(url: &str, arguments: &[&str], code: i32, words: &str) {
    let answer = answered(command(url, arguments).spawn().unwrap());
    let said = format!("{}{}", answer.stdout, answer.stderr);
    assert_eq!(answer.code, code, "{arguments:?}: {answer:?}");
    assert!(said.contains(words), "{arguments:?}: {answer:?}");
    assert!(!said.contains("panicked"), "{answer:?}");
}

async fn execute(pool: &PgPool, statement: impl Into<String>) {
    sqlx::raw_sql(AssertSqlSafe(statement.into())).execute(pool).await.unwrap();
}

fn url_of(database: &TestDatabase) -> String {
    database.options.to_url_lossy().to_string()
}

fn name_of(database: &TestDatabase) -> &str {
    database.options.get_database().unwrap()
}

#[test]
fn the_reference_lists_these_codes_and_no_others() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/cli.md");
    let page = std::fs::read_to_string(page).unwrap();
    let (_, table) = page.split_once("| exit code | meaning |\n|---|---|\n").unwrap();
    let rows = table.lines().take_while(|line| line.starts_with('|'));
    let codes: Vec<i32> = rows.map(|row| row.split('|').nth(1).unwrap().trim().parse().unwrap()).collect();
    // 130 is met in the tests of `dev` and of the relay, the others here.
    assert_eq!(codes, [0, 1, 2, 3, 4, 69, 77, 78, 130]);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_asked_for_decides() {
    let bench = Bench::sqlite().await;
    let url = bench.url.as_str();
    let worker = bench.worker(quick("billing")).await;
    bench.enqueue(vec![order("a", "bad")]).await;
    bench.settled("billing", 1, 0).await;
    bench
        .until("the worker holds its lane", async |bench| {
            bench.posthaste.admin().subscription("billing").await.unwrap().lanes[0].held_by.is_some()
        })
        .await;
    expect(url, &["dead", "list"], 0, "card");
    expect(url, &["check"], 0, "version 1");
    expect(url, &["subscriptions", "remove", "billing", "--yes"], 1, "stop it first");
    expect(url, &["init", concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml")], 1, "is there already");
    expect(url, &["dead", "retry"], 2, "say which");
    expect(url, &["replay", "billing", "--from", "1h"], 2, "add --yes");
    expect(url, &["subscriptions", "set", "billing", "--lease", "2d"], 2, "lease");
    expect(url, &["init", "--sink", "pigeon"], 2, "there is no sink");
    expect(url, &["subscriptions", "show", "nobody"], 3, "there is no subscription");
    expect(url, &["why", ID], 3, "there is no event");
    expect(url, &["status"], 4, "failing  billing");
    worker.stop().await;
    bench.enqueue(vec![order("b", "x")]).await;
    expect(url, &["doctor"], 4, "no worker is there");
}

#[test]
fn a_database_that_is_away_is_69_for_every_command() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("postgres://app@{}/shop", listener.local_addr().unwrap());
    drop(listener);
    for arguments in ASKING.iter().copied().chain([&["migrate"][..]]) {
        expect(&url, arguments, 69, "cannot be reached");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_is_not_prepared_is_78_for_every_command() {
    let (_folder, path) = posthaste_testkit::sqlite_file();
    let url = format!("sqlite:{}", path.display());
    for arguments in ASKING {
        expect(&url, arguments, 78, "posthaste migrate");
    }
    for server in servers() {
        let url = url_of(&TestDatabase::empty_on(&server).await);
        for arguments in ASKING {
            expect(&url, arguments, 78, "posthaste migrate");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_privilege_is_77_wherever_it_is_met() {
    for server in servers() {
        let database = TestDatabase::on(&server).await;
        let role = format!("guest_{:08x}", fastrand::u32(..));
        execute(&database.pool, format!("create role {role} login")).await;
        let url = url_of(&database).replace("postgres@", &format!("{role}@"));
        for arguments in ASKING {
            expect(&url, arguments, 77, "permission denied");
        }
        let some =
            format!("grant usage on schema posthaste to {role}; grant select on posthaste.meta to {role}");
        execute(&database.pool, some).await;
        for arguments in ASKING.iter().copied().filter(|arguments| arguments != &["check"]) {
            expect(&url, arguments, 77, "permission denied");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_passes_is_69_in_the_middle_of_a_command() {
    for server in servers() {
        let database = TestDatabase::on(&server).await;
        let (url, name) = (url_of(&database), name_of(&database));
        let mut holding = database.pool.begin().await.unwrap();
        sqlx::query("lock table posthaste.subscriptions in access exclusive mode")
            .execute(&mut *holding)
            .await
            .unwrap();
        for (setting, words) in [("statement_timeout", "statement timeout"), ("lock_timeout", "lock timeout")]
        {
            execute(&database.pool, format!("alter database {name} set {setting} = '500ms'")).await;
            for arguments in [&["status"][..], &["subscriptions", "pause", "billing"], &["doctor"]] {
                expect(&url, arguments, 69, words);
            }
            execute(&database.pool, format!("alter database {name} reset {setting}")).await;
        }
        let child = command(&url, &["subscriptions", "list"]).spawn().unwrap();
        let end = "select count(pg_terminate_backend(pid)) from pg_stat_activity where datname = current_database() \
                   and wait_event_type = 'Lock'";
        while sqlx::query_scalar::<_, i64>(end).fetch_one(&database.pool).await.unwrap() == 0 {
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
        let answer = answered(child);
        assert!(answer.code == 69 && answer.stderr.contains("try again when it is"), "{answer:?}");
        holding.rollback().await.unwrap();
        execute(&database.pool, format!("alter database {name} set default_transaction_read_only = on"))
            .await;
        expect(&url, &["events", "enqueue", "orders", "x"], 78, "name the primary in database.url");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_locked_file_is_69_and_no_command_waits_for_ever() {
    let bench = Bench::sqlite().await;
    bench.worker(quick("billing")).await.stop().await;
    let mut writer = SqliteConnection::connect(&bench.url).await.unwrap();
    sqlx::query("begin immediate").execute(&mut writer).await.unwrap();
    let commands: [&[&str]; 6] = [
        &["subscriptions", "pause", "billing"],
        &["subscriptions", "set", "billing", "--rate", "5"],
        &["events", "enqueue", "orders", "x"],
        &["replay", "billing", "--from", "beginning", "--yes"],
        &["retain", "--older-than", "30d"],
        &["migrate"],
    ];
    bench.words(&["status"]);
    let children = commands.map(|arguments| bench.command(arguments).spawn().unwrap());
    for (arguments, child) in commands.iter().zip(children) {
        let answer = answered(child);
        let nothing_ahead = arguments[0] == "replay";
        assert_eq!(answer.code, if nothing_ahead { 0 } else { 69 }, "{arguments:?}: {answer:?}");
        assert!(nothing_ahead || answer.stderr.contains("database is locked"), "{arguments:?}: {answer:?}");
    }
    sqlx::query("rollback").execute(&mut writer).await.unwrap();
    bench.words(&["subscriptions", "pause", "billing"]);
}
