//! Writers of the standard trial, in processes of their own: they commit events over many keys, with random pauses, savepoints
//! and rollbacks. Each event is also a row of the application's table `written`, in the same transaction: what is there
//! was committed and nothing else was, whatever became of the writer, its connection or the server.

use std::process::Stdio;
use std::time::Duration;

use posthaste::{EventId, NewEvent, Posthaste};
use posthaste_testkit::Committed;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::{ConnectOptions, Executor, PgConnection, PgPool, Row};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};
use tokio::process::{Child, ChildStdin, Command};

use crate::finding::Result;

/// The word on the command line.
pub(crate) const COMMAND: &str = "write";

/// The topic of all events of a trial.
pub(crate) const TOPIC: &str = "trial";

/// What a process of writers does.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Habits {
    /// Connections that write at the same time.
    pub(crate) connections: u32,
    /// Keys that they fight for.
    pub(crate) keys: u32,
    /// The longest pause, in and between transactions.
    pub(crate) pause: Duration,
    /// Whether commits wake anybody.
    pub(crate) rings: bool,
}

impl Default for Habits {
    fn default() -> Self {
        Self { connections: 4, keys: 40, pause: Duration::from_millis(20), rings: true }
    }
}

/// The application's tables.
pub(crate) async fn prepare(pool: &PgPool) -> Result<()> {
    pool.execute(
        "create table if not exists hot (key text primary key, n bigint not null);
         create table if not exists other (n bigint);
         create table if not exists written (
             id uuid primary key, key text not null, place bigint not null, payload bytea not null,
             at timestamptz not null default clock_timestamp())",
    )
    .await?;
    Ok(())
}

/// What was committed, as the database knows it.
pub(crate) async fn committed(pool: &PgPool) -> Result<Vec<Committed>> {
    let rows = sqlx::query("select id, key, place, payload from written").fetch_all(pool).await?;
    let of = |row: &sqlx::postgres::PgRow| Committed {
        id: EventId(row.get("id")),
        place: Some((row.get("key"), row.get::<i64, _>("place").unsigned_abs())),
        payload: row.get("payload"),
    };
    Ok(rows.iter().map(of).collect())
}

/// Takes the key's lock, then enqueues: so the place is the place in commit order. Returns the events' ids.
pub(crate) async fn write(
    posthaste: &Posthaste,
    connection: &mut PgConnection,
    key: &str,
    count: i64,
) -> Result<Vec<EventId>> {
    let last: i64 = sqlx::query_scalar(
        "insert into hot values ($1, $2) on conflict (key) do update set n = hot.n + $2 returning n",
    )
    .bind(key)
    .bind(count)
    .fetch_one(&mut *connection)
    .await?;
    let mut ids = Vec::new();
    for place in last + 1 - count..=last {
        let payload = body(key, place);
        let event = NewEvent::bytes(TOPIC, payload.clone()).key(key);
        let id = posthaste.enqueue(&mut *connection, event).await?.id;
        sqlx::query("insert into written values ($1, $2, $3, $4)")
            .bind(id.0)
            .bind(key)
            .bind(place)
            .bind(payload)
            .execute(&mut *connection)
            .await?;
        ids.push(id);
    }
    Ok(ids)
}

/// Bytes of every value and of differing length, which depend on the event alone.
fn body(key: &str, place: i64) -> Vec<u8> {
    let mut random = fastrand::Rng::with_seed(place.unsigned_abs());
    let mut noise = vec![0; random.usize(..300)];
    random.fill(&mut noise);
    [format!("{key}:{place}:").into_bytes(), noise].concat()
}

/// The other side: writes until standard input ends, and whatever goes wrong meanwhile is tried again by another transaction.
pub(crate) async fn main(arguments: &[String]) -> Result<()> {
    let [url, connections, keys, pause, rings] = arguments else {
        return Err("write needs a URL, connections, keys, a pause in ms, and whether it rings".into());
    };
    let habits = Habits {
        connections: connections.parse()?,
        keys: keys.parse()?,
        pause: Duration::from_millis(pause.parse()?),
        rings: rings.parse()?,
    };
    let options: PgConnectOptions = url.parse()?;
    let pool = PgPoolOptions::new()
        .max_connections(habits.connections)
        .acquire_timeout(Duration::from_secs(2))
        .connect_lazy_with(options.disable_statement_logging());
    for _ in 0..habits.connections {
        tokio::spawn(write_for_ever(pool.clone(), habits));
    }
    println!("ready");
    tokio::io::stdin().read_to_end(&mut Vec::new()).await?;
    Ok(())
}

async fn write_for_ever(pool: PgPool, habits: Habits) {
    let posthaste = Posthaste::postgres(pool.clone());
    loop {
        if one_transaction(&posthaste, &pool, habits).await.is_err() {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        rest(habits).await;
    }
}

async fn one_transaction(posthaste: &Posthaste, pool: &PgPool, habits: Habits) -> Result<()> {
    let mut tx = pool.begin().await?;
    if !habits.rings {
        tx.execute("set local posthaste.ring = off").await?;
    }
    if fastrand::u8(..100) < 40 {
        // An early transaction id: the order of ids and the order of commits differ from here on.
        tx.execute("insert into other values (1)").await?;
        rest(habits).await;
    }
    let key = format!("key-{}", fastrand::u32(..habits.keys));
    if fastrand::u8(..100) < 20 {
        tx.execute("savepoint s").await?;
        posthaste.enqueue(&mut tx, NewEvent::bytes(TOPIC, "ghost").key(&key)).await?;
        tx.execute("rollback to savepoint s").await?;
    }
    write(posthaste, &mut tx, &key, fastrand::i64(1..4)).await?;
    rest(habits).await;
    match fastrand::u8(..100) < 15 {
        true => tx.rollback().await?,
        false => tx.commit().await?,
    }
    Ok(())
}

async fn rest(habits: Habits) {
    tokio::time::sleep(habits.pause.mul_f64(fastrand::f64())).await;
}

/// A process of writers. Dropping it kills it.
pub(crate) struct Writer {
    child: Child,
    input: Option<ChildStdin>,
}

impl Writer {
    pub(crate) async fn start(url: &str, habits: Habits) -> Result<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        command
            .args([COMMAND, url, &habits.connections.to_string(), &habits.keys.to_string()])
            .args([&habits.pause.as_millis().to_string(), &habits.rings.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true);
        let mut child = command.spawn()?;
        let (input, output) = (child.stdin.take(), child.stdout.take().ok_or("no output")?);
        match BufReader::new(output).lines().next_line().await? {
            Some(line) if line == "ready" => Ok(Self { child, input }),
            line => Err(format!("the writer said {line:?} instead of `ready`").into()),
        }
    }

    /// Ends it, in the middle of its transactions.
    pub(crate) async fn stop(mut self) -> Result<()> {
        drop(self.input.take());
        self.child.wait().await?;
        Ok(())
    }

    /// SIGKILL.
    pub(crate) async fn kill(mut self) -> Result<()> {
        Ok(self.child.kill().await?)
    }
}
