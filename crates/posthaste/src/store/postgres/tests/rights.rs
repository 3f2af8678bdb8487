//! Every statement of the catalogue, tried by every role. EXPLAIN checks the rights of a statement and runs nothing.

use std::collections::BTreeSet;

use sqlx::{AssertSqlSafe, Connection, Executor, PgConnection};

use super::{store, urls};
use crate::store::postgres::PgStore;

/// What only producers run.
const ENQUEUE: [&str; 4] = ["enqueue_usual", "enqueue_one", "enqueue_many", "enqueue_deduped"];

/// A producer that dedupes must see keys that are taken, and renew those whose time is over.
const DEDUPE: [&str; 3] = ["dedupe_lookup", "dedupe_renew", "testing_advance_dedupe_keys"];

/// Moving a log to another cluster rewrites events and what the database is, and a test kit moves its clock: for the owner.
const OWNERS: [&str; 3] = ["admin_rebase_events", "admin_keep_cluster", "testing_advance_events"];

/// What makes a statement one that changes, locks or rings.
const WRITES: [&str; 10] = [
    "insert into",
    "update {schema}",
    "delete from",
    "for update",
    "for no key update",
    "for share",
    "setval(",
    "lock table",
    "take_mark(",
    ".ring()",
];

/// Tries the statement as the role: `true` if nothing stands in its way but its parameters.
async fn may(conn: &mut PgConnection, name: &str, text: &str) -> bool {
    if text.contains("lock table") {
        let mut tx = conn.begin().await.unwrap();
        return allowed(name, tx.execute(AssertSqlSafe(text.to_owned())).await);
    }
    conn.execute(AssertSqlSafe(format!("prepare {name} as {text}"))).await.unwrap();
    let parameters: i32 = sqlx::query_scalar(
        "select coalesce(cardinality(parameter_types), 0) from pg_prepared_statements where name = $1",
    )
    .bind(name)
    .fetch_one(&mut *conn)
    .await
    .unwrap();
    let nulls = vec!["null"; usize::try_from(parameters).unwrap()].join(", ");
    let arguments = if nulls.is_empty() { nulls } else { format!("({nulls})") };
    // The rights on a sequence are checked by the function that changes it.
    let how = if text.contains("setval(") { "execute" } else { "explain execute" };
    allowed(name, conn.execute(AssertSqlSafe(format!("{how} {name}{arguments}"))).await)
}

fn allowed<T>(name: &str, outcome: sqlx::Result<T>) -> bool {
    let Err(error) = outcome else { return true };
    let code = error.as_database_error().and_then(|error| error.code());
    assert_eq!(code.as_deref(), Some("42501"), "{name}.sql: {error}");
    false
}

/// The statements that this role may run.
async fn rights(store: &PgStore, url: &str, role: &str) -> BTreeSet<&'static str> {
    let mut conn = PgConnection::connect(url).await.unwrap();
    conn.execute(AssertSqlSafe(format!("set role {}_{role}", store.schema.as_str()))).await.unwrap();
    let mut rights = BTreeSet::new();
    for (name, text) in store.sql.all() {
        if may(&mut conn, name, text).await {
            rights.insert(name);
        }
    }
    rights
}

fn those(store: &PgStore, wanted: impl Fn(&str, &str) -> bool) -> BTreeSet<&'static str> {
    store.sql.all().into_iter().filter(|(name, text)| wanted(name, text)).map(|(name, _)| name).collect()
}

fn writes(store: &PgStore, text: &str) -> bool {
    WRITES.iter().any(|word| text.contains(&word.replace("{schema}", store.schema.as_str())))
}

#[tokio::test]
async fn each_role_may_run_its_statements_and_no_other() {
    for url in urls() {
        let store = store(&url).await;
        let no_table = |text: &str| !text.contains(&format!("{}.", store.schema.as_str()));
        let relay = those(&store, |name, _| !ENQUEUE.contains(&name) && !OWNERS.contains(&name));
        assert_eq!(rights(&store, &url, "relay").await, relay);
        let viewer = those(&store, |_, text| !writes(&store, text));
        assert_eq!(rights(&store, &url, "viewer").await, viewer);
        assert!(viewer.len() > 30, "{viewer:?}");
        let producer = those(&store, |name, text| {
            ENQUEUE.contains(&name) || DEDUPE.contains(&name) || name == "ring" || no_table(text)
        });
        assert_eq!(rights(&store, &url, "producer").await, producer);
    }
}
