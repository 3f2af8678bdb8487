//! The tables and the statements themselves.

use super::super::statements::SQL;
use super::*;

#[tokio::test]
async fn migrating_twice_changes_nothing_and_the_check_passes() {
    let bench = Bench::new().await;
    bench.store.migrate().await.unwrap();
    bench.store.check().await.unwrap();
}

#[tokio::test]
async fn a_database_without_tables_is_refused_with_the_remedy() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(&dir).await;
    assert!(store.check().await.unwrap_err().to_string().contains("run migrate"));
    let error = store.reader("x").await.unwrap_err();
    assert!(matches!(&error, crate::error::Error::Schema(text) if text.contains("run migrate")), "{error}");
}

#[tokio::test]
async fn tables_of_a_newer_version_are_refused() {
    let bench = Bench::new().await;
    sqlx::query("update posthaste_meta set version = 99").execute(&bench.store.pool).await.unwrap();
    assert!(bench.store.check().await.unwrap_err().to_string().contains("newer"));
    assert!(bench.store.migrate().await.unwrap_err().to_string().contains("newer"));
}

/// The search for a place in time walks the log from its head, on purpose; a new subscription has no rows yet.
/// Operating walks over all lanes, which are few, counts within a list that was cut before, and deletes a subscription
/// with all it has; retention looks at every delivery and at the journal it trims.
const EXCUSED: &[&str] = &[
    "seq_at_time",
    "insert_subscription",
    "admin_count_range",
    "admin_delete_subscription",
    "admin_states_of",
    "admin_held_by_lanes",
    "admin_held_by_deliveries",
    "admin_retain_batches",
];

#[tokio::test]
async fn every_statement_can_be_prepared_and_finds_its_rows_by_an_index() {
    let bench = Bench::new().await;
    for (name, text) in SQL.all() {
        let explain = sqlx::AssertSqlSafe(format!("explain query plan {text}"));
        let rows =
            sqlx::query(explain).fetch_all(&bench.store.pool).await.unwrap_or_else(|e| panic!("{name}: {e}"));
        let plan: Vec<String> = rows.iter().map(|row| sqlx::Row::get(row, "detail")).collect();
        // What only tests do walks over the whole log of a test.
        let excused = EXCUSED.contains(&name) || name.starts_with("testing_");
        assert!(excused || !plan.iter().any(|step| reads_too_much(step)), "{name}: {plan:#?}");
    }
}

/// A whole table, all deliveries of a subscription, or the whole journal of batches.
fn reads_too_much(step: &str) -> bool {
    let table = step.split(' ').nth(1).unwrap_or_default().trim_start_matches("posthaste_");
    match table {
        "events" | "deliveries" | "batches" | "lanes" | "e" | "d" | "l" | "p" | "h" | "b" | "o"
            if step.starts_with("SCAN") =>
        {
            true
        }
        "deliveries" | "d" => step.ends_with("autoindex_posthaste_deliveries_1 (subscription=?)"),
        "batches" | "b" => step.contains("PRIMARY KEY") && !step.contains("number=?"),
        _ => false,
    }
}

#[tokio::test]
async fn the_files_of_statements_and_the_catalogue_agree() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src/store/sqlite/sql");
    let mut files = files_of(&folder, "");
    files.extend(files_of(&folder.join("admin"), "admin_"));
    files.extend(files_of(&folder.join("testing"), "testing_"));
    files.sort();
    let mut names: Vec<&str> = SQL.all().into_iter().map(|(name, _)| name).collect();
    names.sort_unstable();
    assert_eq!(files, names);
    assert!(SQL.all().iter().all(|(_, text)| text.starts_with("-- ") && !text.contains('{')));
}

fn files_of(folder: &std::path::Path, prefix: &str) -> Vec<String> {
    let names = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name());
    names
        .filter_map(|name| {
            name.to_str().unwrap().strip_suffix(".sql").map(|statement| format!("{prefix}{statement}"))
        })
        .collect()
}
