//! What the tests of the operator's commands share: the built binary on a SQLite file and on every PostgreSQL server.

use std::io::Write;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use posthaste::{Event, EventId, NewEvent, Outcome, Posthaste, Subscription, Worker};
use posthaste_testkit::{SqliteDatabase, TestDatabase, servers};
use serde_json::Value;
use sqlx::{AssertSqlSafe, ConnectOptions, PgPool};

/// A database with the binary pointed at it.
pub(crate) struct Bench {
    pub(crate) url: String,
    pub(crate) posthaste: Posthaste,
    pool: Pool,
}

enum Pool {
    Postgres(PgPool),
    Sqlite(SqliteDatabase),
}

/// What the binary said.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Bench {
    pub(crate) async fn sqlite() -> Self {
        let database = SqliteDatabase::new().await;
        let url = format!("sqlite:{}", database.path.display());
        Self { url, posthaste: database.posthaste.clone(), pool: Pool::Sqlite(database) }
    }

    /// A SQLite file, and a database on every PostgreSQL server.
    pub(crate) async fn everywhere() -> Vec<Self> {
        let mut benches = vec![Self::sqlite().await];
        for server in servers() {
            benches.push(Self::on(&TestDatabase::on(&server).await));
        }
        benches
    }

    pub(crate) fn on(database: &TestDatabase) -> Self {
        let url = database.options.to_url_lossy().to_string();
        Self { url, posthaste: database.posthaste.clone(), pool: Pool::Postgres(database.pool.clone()) }
    }

    pub(crate) async fn enqueue(&self, events: Vec<NewEvent>) -> Vec<EventId> {
        let enqueued = match &self.pool {
            Pool::Postgres(pool) => {
                let mut connection = pool.acquire().await.unwrap();
                self.posthaste.enqueue_many(&mut connection, events).await.unwrap()
            }
            Pool::Sqlite(database) => {
                let mut connection = database.pool.acquire().await.unwrap();
                self.posthaste.enqueue_many(&mut connection, events).await.unwrap()
            }
        };
        self.posthaste.wake();
        enqueued.into_iter().map(|enqueued| enqueued.id).collect()
    }

    /// Makes everything in the log this many minutes older.
    pub(crate) async fn age(&self, minutes: u32) {
        let statements = match &self.pool {
            Pool::Postgres(_) => [
                format!("update posthaste.events set created_at = created_at - interval '{minutes} minutes'"),
                format!(
                    "update posthaste.deliveries set updated_at = updated_at - interval '{minutes} minutes'"
                ),
                format!(
                    "update posthaste.batches set finished_at = finished_at - interval '{minutes} minutes'"
                ),
            ],
            Pool::Sqlite(_) => [
                format!("update posthaste_events set created_at = created_at - {minutes} * 60000000"),
                format!("update posthaste_deliveries set updated_at = updated_at - {minutes} * 60000000"),
                format!("update posthaste_batches set finished_at = finished_at - {minutes} * 60000000"),
            ],
        };
        for statement in statements.map(AssertSqlSafe) {
            let done = match &self.pool {
                Pool::Postgres(pool) => sqlx::query(statement).execute(pool).await.map(|_| ()),
                Pool::Sqlite(database) => sqlx::query(statement).execute(&database.pool).await.map(|_| ()),
            };
            done.unwrap();
        }
    }

    /// Runs statements beside Posthaste.
    pub(crate) async fn execute(&self, sql: &str) {
        assert!(self.try_execute(sql).await, "{sql}");
    }

    /// The same, and whether the database did it.
    pub(crate) async fn try_execute(&self, sql: &str) -> bool {
        let sql = AssertSqlSafe(sql.to_owned());
        match &self.pool {
            Pool::Postgres(pool) => sqlx::raw_sql(sql).execute(pool).await.is_ok(),
            Pool::Sqlite(database) => sqlx::raw_sql(sql).execute(&database.pool).await.is_ok(),
        }
    }

    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        command(&self.url, arguments)
    }

    /// Runs the binary. Whatever it says in words is free of escape codes, on a pipe.
    pub(crate) fn run(&self, arguments: &[&str]) -> Answer {
        let answer = answered(self.command(arguments).spawn().expect("the binary runs"));
        assert!(!answer.stdout.contains('\x1b'), "no escape codes in a pipe: {answer:?}");
        assert!(!answer.stderr.contains("panicked"), "{answer:?}");
        answer
    }

    /// The words of a command that works; none of its lines is wider than 100 columns.
    pub(crate) fn words(&self, arguments: &[&str]) -> String {
        let answer = self.run(arguments);
        assert_eq!(answer.code, 0, "{arguments:?}: {answer:?}");
        let wide = answer.stdout.lines().find(|line| line.chars().count() > 100);
        assert_eq!(wide, None, "{arguments:?}");
        answer.stdout
    }

    /// The JSON of a command, one document, with this exit code.
    pub(crate) fn json_and(&self, code: i32, arguments: &[&str]) -> Value {
        let arguments = [arguments, &["--json"]].concat();
        let answer = self.run(&arguments);
        assert_eq!(answer.code, code, "{arguments:?}: {answer:?}");
        serde_json::from_str(&answer.stdout)
            .unwrap_or_else(|error| panic!("{arguments:?}: {error}: {answer:?}"))
    }

    pub(crate) fn json(&self, arguments: &[&str]) -> Value {
        self.json_and(0, arguments)
    }

    /// A command that is refused: the exit code, and one sentence on stderr.
    pub(crate) fn refused(&self, code: i32, arguments: &[&str]) -> String {
        let answer = self.run(arguments);
        assert_eq!((answer.code, answer.stdout.as_str()), (code, ""), "{arguments:?}: {answer:?}");
        assert_eq!(answer.stderr.lines().count(), 1, "one sentence: {answer:?}");
        answer.stderr
    }

    /// Waits for a fact.
    pub(crate) async fn until(&self, what: &str, mut fact: impl AsyncFnMut(&Self) -> bool) {
        for _ in 0..2_000 {
            if fact(self).await {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("{what}: not within 20 s");
    }

    /// Waits until a subscription has nothing to do but this many dead letters and waiting events.
    pub(crate) async fn settled(&self, name: &str, dead: u64, waiting: u64) {
        self.until("settled", async |bench| {
            let state = bench.posthaste.admin().subscription(name).await.unwrap();
            state.dead.exact() == Some(dead) && state.lag.exact() == Some(waiting)
        })
        .await;
    }

    /// A worker that decides by the body: `bad` is dead, `later` is retried in an hour, the rest is delivered.
    pub(crate) async fn worker(&self, subscription: Subscription) -> Worker {
        let handler = |event: Arc<Event>| async move {
            match event.text() {
                Some(text) if text.contains("bad") => Outcome::dead("card\x1b[2J refused"),
                Some(text) if text.contains("later") => {
                    Outcome::retry_after(Duration::from_secs(3600), "card service away")
                }
                _ => Outcome::Delivered,
            }
        };
        self.posthaste.handler(subscription, handler).start().await.unwrap()
    }
}

pub(crate) fn command(url: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_posthaste"));
    command.args(arguments).env("DATABASE_URL", url).env("USER", "maria").env_remove("RUST_LOG");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

pub(crate) fn answered(child: Child) -> Answer {
    let output = child.wait_with_output().expect("it ends");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("UTF-8");
    Answer {
        code: output.status.code().unwrap_or(-1),
        stdout: text(output.stdout),
        stderr: text(output.stderr),
    }
}

/// Runs a command with something on its stdin.
pub(crate) fn fed(mut command: Command, input: &[u8]) -> Answer {
    let mut child = command.stdin(Stdio::piped()).spawn().expect("the binary runs");
    child.stdin.take().expect("a pipe").write_all(input).expect("it reads");
    answered(child)
}

pub(crate) fn order(key: &str, body: &str) -> NewEvent {
    NewEvent::bytes("orders", body.as_bytes().to_vec()).key(key).event_type("order.created")
}

pub(crate) fn quick(name: &str) -> Subscription {
    Subscription::new(name).unwrap().topic("orders").settings(|s| {
        s.base_delay = Duration::from_millis(20);
        s.max_delay = Duration::from_millis(100);
        s.poll_interval = Duration::from_millis(200);
        s.lease = Duration::from_secs(5);
    })
}
