//! Every statement prepares, and those that run often use their index.

use sqlx::{AssertSqlSafe, Row, SqlitePool};

use super::SqliteTables;
use super::statements::SQL;

async fn plans() -> Vec<(&'static str, String)> {
    let options = sqlx::sqlite::SqlitePoolOptions::new().max_connections(1);
    let pool: SqlitePool = options.connect("sqlite::memory:").await.unwrap();
    SqliteTables::new(pool.clone()).migrate().await.unwrap();
    let mut plans = Vec::new();
    for (name, text) in SQL.all() {
        let rows = sqlx::query(AssertSqlSafe(format!("explain query plan {text}"))).fetch_all(&pool).await;
        let rows = rows.unwrap_or_else(|error| panic!("{name}.sql: {error}"));
        let lines: Vec<String> = rows.iter().map(|row| row.get("detail")).collect();
        plans.push((name, lines.join("\n")));
    }
    plans
}

#[tokio::test]
async fn every_statement_prepares_and_none_that_runs_often_reads_a_whole_table() {
    for (name, plan) in plans().await {
        // Listing without a consumer goes by number from the newest on, and stops at the limit.
        let scans = plan.lines().any(|line| line.starts_with("SCAN posthaste") && !line.contains("USING"));
        assert!(!scans || name == "list_letters", "{name}: {plan}");
    }
    let plans = plans().await;
    let plan =
        |wanted: &str| plans.iter().find(|(name, _)| *name == wanted).map(|(_, plan)| plan.as_str()).unwrap();
    assert!(plan("clean_marks").contains("posthaste_inbox_handled_expiry"), "{}", plan("clean_marks"));
    assert!(
        plan("clean_letters").contains("posthaste_inbox_dead_letters_decided"),
        "{}",
        plan("clean_letters")
    );
    assert!(!plan("list_letters").contains("TEMP B-TREE"), "{}", plan("list_letters"));
}
