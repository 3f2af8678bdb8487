//! The SQL that is handed out makes the same database as `migrate`, and nothing is missing in it.

use posthaste::Posthaste;
use posthaste_testkit::{TestDatabase, servers};
use sqlx::{AssertSqlSafe, PgPool, SqlitePool};

/// Everything in the schema that can be compared, a line each. The expressions leave out what differs from database to
/// database by its nature: object numbers and times.
const FACTS: [&str; 7] = [
    "select format('%s.%s %s %s null %s identity %s', table_name, column_name, data_type, column_default, is_nullable, \
     identity_generation) from information_schema.columns where table_schema = 'posthaste'",
    "select format('%s %s', table_name, table_type) from information_schema.tables where table_schema = 'posthaste'",
    "select indexdef from pg_indexes where schemaname = 'posthaste'",
    "select format('%s %s', conrelid::regclass, pg_get_constraintdef(c.oid)) from pg_constraint c \
     join pg_namespace n on n.oid = c.connamespace where n.nspname = 'posthaste'",
    "select pg_get_functiondef(p.oid) from pg_proc p join pg_namespace n on n.oid = p.pronamespace \
     where n.nspname = 'posthaste'",
    "select format('%s %s', relname, relacl) from pg_class where relnamespace = 'posthaste'::regnamespace",
    "select format('meta %s %s %s', version, system_identifier, retained_to) from posthaste.meta",
];

async fn facts(pool: &PgPool) -> Vec<String> {
    let mut facts = Vec::new();
    for question in FACTS {
        let answers: Vec<String> = sqlx::query_scalar(question).fetch_all(pool).await.expect(question);
        assert!(!answers.is_empty(), "a question without an answer compares nothing: {question}");
        facts.extend(answers);
    }
    facts.sort();
    facts
}

#[tokio::test]
async fn the_sql_for_other_tools_makes_the_same_database_as_migrate() {
    for server in servers() {
        let migrated = TestDatabase::on(&server).await;
        let by_hand = TestDatabase::empty_on(&server).await;
        let sql = by_hand.posthaste.migration_sql().join("\n");
        sqlx::raw_sql(AssertSqlSafe(sql)).execute(&by_hand.pool).await.expect("it runs on an empty database");
        assert_eq!(facts(&by_hand.pool).await, facts(&migrated.pool).await, "{}", server.name);
        by_hand.posthaste.migrate().await.expect("there is nothing left to do");
        assert_eq!(facts(&by_hand.pool).await, facts(&migrated.pool).await, "and nothing is done");
    }
}

#[tokio::test]
async fn the_same_on_sqlite() {
    let all = "select coalesce(sql, name) from sqlite_schema union all select 'version ' || version from posthaste_meta \
               union all select journal_mode from pragma_journal_mode";
    let mut both: Vec<Vec<String>> = Vec::new();
    for by_hand in [true, false] {
        let (_folder, path) = posthaste_testkit::sqlite_file();
        let pool = SqlitePool::connect_with(posthaste::sqlite_options(&path)).await.expect("open");
        let posthaste = Posthaste::sqlite(pool.clone());
        if by_hand {
            let sql = posthaste.migration_sql().join("\n");
            sqlx::raw_sql(AssertSqlSafe(sql)).execute(&pool).await.expect("it runs on an empty file");
        }
        posthaste.migrate().await.expect("migrate");
        let mut facts: Vec<String> = sqlx::query_scalar(all).fetch_all(&pool).await.expect("facts");
        facts.sort();
        both.push(facts);
    }
    assert_eq!(both[0], both[1]);
    assert!(both[0].contains(&"wal".to_owned()) && both[0].contains(&"version 1".to_owned()), "{both:?}");
}
