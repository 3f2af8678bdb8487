//! `init`, `check`, `migrate`, `version`: what comes before delivering.

use posthaste_testkit::{TestDatabase, servers};
use sqlx::AssertSqlSafe;

use crate::log::{Log, url_of};
use crate::support::{Ended, Folder};

const SHOP: &str = "[database]\nurl = \"sqlite:shop.db\"\n[subscriptions.orders.sink]\ntype = \"file\"\npath = \"out.jsonl\"\n";

#[test]
fn version_tells_the_sinks() {
    let folder = Folder::new();
    let ended = folder.run(&["version"]);
    assert_eq!(ended.code, Some(0));
    assert!(ended.stdout.starts_with(&format!("posthaste {}\n", env!("CARGO_PKG_VERSION"))), "{ended:?}");
    let sinks = folder.run(&["version", "--json"]).json()["sinks"].clone();
    let sinks: Vec<&str> =
        sinks.as_array().expect("a list").iter().filter_map(|sink| sink.as_str()).collect();
    assert!(sinks.contains(&"stdout") && sinks.contains(&"file"), "{sinks:?}");
}

#[test]
fn every_command_has_help_with_an_example() {
    let folder = Folder::new();
    for command in ["relay", "dev", "init", "check", "migrate", "version"] {
        let ended = folder.run(&[command, "--help"]);
        assert_eq!(ended.code, Some(0));
        let example = format!("Examples:\n  posthaste {command}");
        assert!(ended.stdout.contains(&example), "{command}: {}", ended.stdout);
    }
}

/// The comment shows the default: who takes the # away changes nothing.
#[test]
fn the_log_filter_that_init_shows_is_the_one_in_force() {
    let folder = Folder::new();
    assert_eq!(folder.run(&["init"]).code, Some(0));
    let written = folder.read("posthaste.toml");
    assert!(written.contains("\n# log_filter = \"warn,posthaste=info\"  # "), "{written}");
    folder.write("posthaste.toml", written.replace("# log_filter", "log_filter"));
    let checked = folder.run(&["check", "--offline"]);
    assert_eq!(checked.code, Some(0), "{checked:?}");
}

#[test]
fn the_way_from_nothing_to_a_relay_that_can_start() {
    let folder = Folder::with(SHOP);
    let check = || folder.run(&["check"]);
    let before = check();
    assert_eq!(before.code, Some(78), "{before:?}");
    assert!(before.stdout.contains("there is no database shop.db"), "{before:?}");
    assert!(!folder.path("shop.db").exists(), "looking creates nothing");
    let migrated = folder.run(&["migrate", "--json"]).json();
    assert_eq!((&migrated["from"], &migrated["to"]), (&serde_json::Value::Null, &serde_json::json!(1)));
    assert!(folder.run(&["migrate"]).stdout.contains("have version 1 already; nothing to do"));
    let after = folder.run(&["check", "--json"]);
    assert_eq!((after.code, &after.json()["ok"]), (Some(0), &serde_json::json!(true)), "{after:?}");
}

#[tokio::test]
async fn tables_of_another_version_are_told_apart() {
    let folder = Folder::with(SHOP);
    let log = Log::sqlite(&folder).await;
    for (version, remedy) in [("99", "use a newer posthaste"), ("0", "run `posthaste migrate`")] {
        match version {
            "99" => log.execute("update posthaste_meta set version = 99").await,
            _ => log.execute("update posthaste_meta set version = 0").await,
        }
        let (checked, relayed) = (folder.run(&["check"]), folder.run(&["relay", "--log", "pretty"]));
        assert!(checked.code == Some(78) && checked.stdout.contains(remedy), "{checked:?}");
        assert!(relayed.code == Some(78) && relayed.stderr.contains(remedy), "{relayed:?}");
    }
}

#[tokio::test]
async fn a_relay_without_tables_names_migrate_and_can_run_it_itself() {
    for server in servers() {
        let database = TestDatabase::empty_on(&server).await;
        let url = url_of(&server, &database);
        let folder = Folder::with(SHOP);
        let ended = folder.run(&["relay", "--log", "pretty", "--listen", "off", "--database", &url]);
        assert_eq!(ended.code, Some(78), "{ended:?}");
        assert!(ended.stderr.contains("tables are not there; run `posthaste migrate` first"), "{ended:?}");
        let relay = folder.relay(&["--log", "pretty", "--listen", "off", "--database", &url, "--migrate"]);
        relay.says("created Posthaste's tables, version 1");
        relay.says("Delivering.");
        assert_eq!(relay.stop().0, Some(0));
    }
}

#[tokio::test]
async fn the_printed_sql_makes_a_database_that_passes_the_check() {
    for server in servers() {
        let database = TestDatabase::empty_on(&server).await;
        let (url, folder) = (url_of(&server, &database), Folder::with(SHOP));
        folder
            .write("posthaste.toml", SHOP.replace("sqlite:shop.db", &format!("{url}\"\nschema = \"outbox")));
        let printed = folder.run(&["migrate", "--print"]);
        assert_eq!(printed.code, Some(0), "{printed:?}");
        sqlx::raw_sql(AssertSqlSafe(printed.stdout)).execute(&database.pool).await.expect("the SQL runs");
        let ended = folder.run(&["check"]);
        assert_eq!(ended.code, Some(0), "{ended:?}");
        assert!(folder.run(&["migrate"]).stdout.contains("nothing to do"));
    }
    let folder = Folder::with(SHOP);
    let printed = folder.run(&["migrate", "--print"]);
    let pool = sqlx::SqlitePool::connect_with(posthaste::sqlite_options(folder.path("shop.db")))
        .await
        .expect("open");
    sqlx::raw_sql(AssertSqlSafe(printed.stdout)).execute(&pool).await.expect("the SQL runs");
    pool.close().await;
    assert_eq!(folder.run(&["check"]).code, Some(0));
}

#[test]
fn a_sink_that_cannot_be_reached_fails_the_check() {
    let folder = Folder::with(SHOP);
    folder.run(&["migrate"]);
    folder.write("out.jsonl", "");
    let mut permissions = std::fs::metadata(folder.path("out.jsonl")).expect("a file").permissions();
    permissions.set_readonly(true);
    std::fs::set_permissions(folder.path("out.jsonl"), permissions).expect("read-only");
    let ended = folder.run(&["check"]);
    // Whoever runs the tests as root may write everywhere.
    let root = rustix::process::geteuid().is_root();
    assert_eq!(ended.code, Some(if root { 0 } else { 4 }), "{ended:?}");
}

#[test]
fn operators_need_no_file_but_a_url() {
    let folder = Folder::new();
    let migrate = |folder: &Folder| {
        let mut command = folder.command(&["migrate"]);
        Ended::of(command.env("DATABASE_URL", "sqlite:shop.db").output().expect("the binary runs"))
    };
    assert_eq!(migrate(&folder).code, Some(0));
    folder.write("posthaste.toml", "[database]\nurl = \"sqlite:shop.db\"\n");
    let ended = folder.run(&["check"]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(ended.stdout.contains("warning  subscriptions"), "{ended:?}");
}
