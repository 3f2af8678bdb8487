//! Every statement prepares on every supported server, and those that run often use their index.

use sqlx::{AssertSqlSafe, Connection, Executor, PgConnection, PgPool};

use super::PgTables;
use crate::id::SchemaName;

fn urls() -> Vec<String> {
    let names = ["POSTHASTE_TEST_POSTGRES", "POSTHASTE_TEST_POSTGRES_CURRENT"];
    let urls: Vec<String> = names.iter().filter_map(|name| std::env::var(name).ok()).collect();
    assert!(!urls.is_empty(), "no PostgreSQL to test on: run `cargo xtask test`");
    urls
}

/// In a schema of its own, with a name that differs from the default: nothing may depend on it.
async fn tables(url: &str) -> PgTables {
    let schema = SchemaName::parse(&format!("inbox_{:08x}", fastrand::u32(..))).unwrap();
    let tables = PgTables::new(PgPool::connect(url).await.unwrap(), schema);
    tables.migrate().await.unwrap();
    tables
}

#[tokio::test]
async fn every_statement_prepares() {
    for url in urls() {
        let tables = tables(&url).await;
        let mut conn = PgConnection::connect(&url).await.unwrap();
        for (name, text) in tables.sql.all() {
            let prepared = conn.execute(AssertSqlSafe(format!("prepare {name} as {text}"))).await;
            assert!(prepared.is_ok(), "{name}.sql: {}", prepared.unwrap_err());
        }
    }
}

async fn plan(conn: &mut PgConnection, text: &str, values: &[&str]) -> String {
    let filled = values
        .iter()
        .enumerate()
        .rev()
        .fold(text.to_owned(), |text, (index, value)| text.replace(&format!("${}", index + 1), value));
    let lines = sqlx::query_scalar(AssertSqlSafe(format!("explain {filled}"))).fetch_all(conn).await;
    let lines: Vec<String> = lines.unwrap();
    lines.join("\n")
}

#[tokio::test]
async fn cleaning_and_looking_read_by_index_in_a_large_inbox() {
    for url in urls() {
        let tables = tables(&url).await;
        let schema = tables.schema.as_str();
        let fill = format!(
            "insert into {schema}.handled (consumer, event_id, expires_at)
             select 'c' || n % 7, n::text, clock_timestamp() + n * interval '1 s' from generate_series(-100, 20000) n;
             insert into {schema}.dead_letters (consumer, event_id, headers, payload, reason, attempts, status, decided_at)
             select 'c' || n % 7, n::text, '[]', '', 'why', 1, case when n % 50 = 0 then 'discarded' else 'open' end,
               case when n % 50 = 0 then clock_timestamp() end from generate_series(1, 20000) n;
             analyze {schema}.handled; analyze {schema}.dead_letters"
        );
        sqlx::raw_sql(AssertSqlSafe(fill)).execute(&tables.pool).await.unwrap();
        let mut conn = PgConnection::connect(&url).await.unwrap();
        let list = ["'c1'", "null", "null", "null", "null", "null", "50"];
        let expected: [(&str, &[&str], &str); 4] = [
            (tables.sql.clean_marks.as_str(), &["10"], "handled_expiry"),
            (tables.sql.clean_letters.as_str(), &["10", "1"], "dead_letters_decided"),
            (tables.sql.is_marked.as_str(), &["'c1'", "'1'"], "handled_pkey"),
            (tables.sql.list_letters.as_str(), &list, "dead_letters_"),
        ];
        for (text, values, index) in expected {
            let plan = plan(&mut conn, text, values).await;
            assert!(plan.contains(index) && !plan.contains("Seq Scan"), "{text}\n{plan}");
        }
    }
}
