//! Programs and tables of different versions: an older or newer state of the tables is refused in words, nothing is lost, and
//! delivery goes on when the versions meet again.

use std::path::PathBuf;

use posthaste::{Error, ErrorKind, NewEvent, Posthaste};
use posthaste_testkit::suite::{Script, quick};
use posthaste_testkit::{TestDatabase, servers, sqlite_file};
use sqlx::{AssertSqlSafe, PgPool, SqlitePool};

/// A database without tables.
enum Database {
    Postgres(PgPool, Posthaste),
    Sqlite(
        SqlitePool,
        Posthaste,
        #[expect(dead_code, reason = "the file goes away with it")] tempfile::TempDir,
    ),
}

impl Database {
    async fn everywhere() -> Vec<Self> {
        let (folder, path): (_, PathBuf) = sqlite_file();
        let pool = SqlitePool::connect_with(posthaste::sqlite_options(&path)).await.expect("a file");
        let mut all = vec![Self::Sqlite(pool.clone(), Posthaste::sqlite(pool), folder)];
        for server in servers() {
            let empty = TestDatabase::empty_on(&server).await;
            all.push(Self::Postgres(empty.pool, empty.posthaste));
        }
        all
    }

    fn posthaste(&self) -> &Posthaste {
        match self {
            Self::Postgres(_, posthaste) | Self::Sqlite(_, posthaste, _) => posthaste,
        }
    }

    /// Tables are named as on PostgreSQL.
    async fn run(&self, sql: &str) {
        match self {
            Self::Postgres(pool, _) => {
                sqlx::raw_sql(AssertSqlSafe(sql.to_owned())).execute(pool).await.map(drop).expect(sql);
            }
            Self::Sqlite(pool, ..) => {
                let sql = sql.replace("posthaste.", "posthaste_");
                sqlx::raw_sql(AssertSqlSafe(sql.clone())).execute(pool).await.map(drop).expect(&sql);
            }
        }
    }

    async fn enqueue(&self, body: &str) {
        let event = NewEvent::bytes("orders", body).key("k");
        match self {
            Self::Postgres(pool, posthaste) => {
                let mut connection = pool.acquire().await.expect("a connection");
                posthaste.enqueue(&mut connection, event).await.expect("enqueue");
            }
            Self::Sqlite(pool, posthaste, _) => {
                let mut connection = pool.acquire().await.expect("a connection");
                posthaste.enqueue(&mut connection, event).await.expect("enqueue");
            }
        }
    }

    /// The sentence with which a worker and claims by hand are refused.
    async fn refusal(&self) -> String {
        let script = Script::accepting();
        let worker = self.posthaste().handler(quick("s"), script.clone()).start().await;
        let claims = self.posthaste().claims(&quick("s")).await;
        let (Err(refused), Err(by_hand)) = (worker, claims) else { panic!("it was not refused") };
        assert!(matches!(refused, Error::Schema(_)), "{refused}");
        assert_eq!((refused.kind(), script.accepted.len()), (ErrorKind::NeedsOperator, 0));
        assert_eq!(by_hand.to_string(), refused.to_string());
        refused.to_string()
    }

    /// Everything that was enqueued, in its order.
    async fn delivers(&self, bodies: &[&str]) {
        let script = Script::accepting();
        let worker = self.posthaste().handler(quick("s"), script.clone()).start().await.expect("it starts");
        script.accepted.wait_for(bodies.len()).await;
        worker.stop().await;
        assert_eq!(script.accepted.texts(), bodies);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_newer_program_refuses_older_tables_and_goes_on_after_migrate() {
    let versions =
        Posthaste::sqlite(SqlitePool::connect_lazy("sqlite::memory:").expect("a url")).migration_sql().len();
    for applied in 0..versions {
        for database in Database::everywhere().await {
            for text in database.posthaste().migration_sql().iter().take(applied) {
                database.run(text).await;
            }
            let mut bodies = Vec::new();
            if applied > 0 {
                database.enqueue("before").await;
                bodies.push("before");
            }
            let sentence = database.refusal().await;
            assert!(sentence.contains("run migrate"), "{sentence}");
            database.posthaste().migrate().await.expect("migrate");
            database.enqueue("after").await;
            bodies.push("after");
            database.delivers(&bodies).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_older_program_refuses_newer_tables_and_loses_nothing() {
    for database in Database::everywhere().await {
        database.posthaste().migrate().await.expect("migrate");
        database.enqueue("before").await;
        database.run("update posthaste.meta set version = version + 1").await;
        let sentence = database.refusal().await;
        assert!(sentence.contains("use a newer Posthaste"), "{sentence}");
        let refused = database.posthaste().migrate().await.expect_err("an older program must not touch them");
        assert!(refused.to_string().contains("use a newer Posthaste"), "{refused}");
        database.enqueue("meanwhile").await;
        database.run("update posthaste.meta set version = version - 1").await;
        database.delivers(&["before", "meanwhile"]).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn tables_that_say_an_older_version_are_refused_with_both_numbers() {
    for database in Database::everywhere().await {
        database.posthaste().migrate().await.expect("migrate");
        database.enqueue("before").await;
        database.run("update posthaste.meta set version = 0").await;
        let sentence = database.refusal().await;
        println!("control, tables of version 0: {sentence}");
        assert!(sentence.contains("version 0") && sentence.contains("run migrate"), "{sentence}");
        let version = database.posthaste().schema_version();
        database.run(&format!("update posthaste.meta set version = {version}")).await;
        database.delivers(&["before"]).await;
    }
}
