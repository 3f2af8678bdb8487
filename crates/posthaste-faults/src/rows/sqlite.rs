//! The row about SQLite: relays and writers in processes of their own share one file, hold its only write lock, and are killed.
//! The trial is the standard one with another database; what differs from it stands here.

use std::collections::HashSet;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use posthaste::{EventId, NewEvent, Posthaste};
use posthaste_testkit::{Committed, Ledger, Tmpfs, Verdict};
use sqlx::sqlite::SqlitePoolOptions;
use sqlx::{Executor, Row, SqliteConnection, SqlitePool};
use tempfile::{TempDir, tempdir};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

use crate::collector::Collector;
use crate::finding::{Finding, Result};
use crate::relay::{Plan, Relay, SUBSCRIPTION};
use crate::stage::Stage;
use crate::writer::TOPIC;

/// The word on the command line.
pub(crate) const COMMAND: &str = "write-sqlite";

/// Without a single acceptance for so long, what is missing counts as lost.
const PATIENCE: Duration = Duration::from_secs(45);

/// Connections of each process of writers.
const CONNECTIONS: u32 = 2;

/// Two relays, two processes of writers; each is killed in its turn.
pub(crate) async fn kill(stage: &Stage) -> Result<Vec<Finding>> {
    let kills = stage.size(10, 200);
    let mut trial = Trial::begin(stage).await?;
    for kill in 0..kills {
        tokio::time::sleep(Duration::from_millis(200 + fastrand::u64(..400))).await;
        let victim = kill / 2 % 2;
        match kill % 2 {
            0 => trial.kill_relay(victim)?,
            _ => trial.kill_writer(victim).await?,
        }
    }
    let complaints = trial.stop_writers().await?;
    let (verdict, locked) = trial.end().await?;
    let dead = trial.posthaste.admin().subscription(SUBSCRIPTION).await?.dead;
    let finding = Finding::new("SQLite: processes killed, writers that hold the lock")
        .how(format!("kill -9 {kills} times, relays and writers by turns; 2 relays, 2 x {CONNECTIONS} writers, one file"))
        .figures(&verdict, trial.plan.duplicates_of(kills.div_ceil(2)))
        .fact("dead", dead, dead.is_zero())
        .fact("`database is locked` told to writers", complaints.len(), complaints.is_empty())
        .fact("`database is locked` told by relays", locked, locked == 0);
    Ok(vec![match complaints.first() {
        Some(complaint) => finding.told("a writer was told", complaint),
        None => finding,
    }])
}

/// No room in the file system of the file; then there is room again.
pub(crate) async fn disk_full(stage: &Stage) -> Result<Finding> {
    let (fault, times) = ("the disk of SQLite is full", stage.size(1, 5));
    let disk = match Tmpfs::mount(64) {
        Err(reason) => return Ok(Finding::new(fault).skipped(&reason)),
        Ok(disk) => disk,
    };
    let mut trial = Trial::begin_with(stage.relay.clone(), disk.path().join("log.db")).await?;
    for _ in 0..times {
        tokio::time::sleep(Duration::from_secs(1)).await;
        disk.fill();
        tokio::time::sleep(Duration::from_secs(stage.size(3, 10))).await;
        disk.make_room();
        trial.until_delivering().await?;
    }
    let complaints = trial.stop_writers().await?;
    let refused = complaints.iter().filter(|complaint| complaint.contains("full")).count();
    let (verdict, _) = trial.end().await?;
    let dead = trial.posthaste.admin().subscription(SUBSCRIPTION).await?.dead;
    Ok(Finding::new(fault)
        .how(format!("a file system of 64 MiB filled, {times} times; 2 relays, 2 x {CONNECTIONS} writers"))
        .figures(&verdict, trial.plan.duplicates_of(2 * times))
        .fact("dead", dead, dead.is_zero())
        .fact("writers were told that it is full", refused, refused > 0))
}

/// Ten minutes back, and forward again, for relays whose clock is that of the database.
pub(crate) async fn clock_steps(stage: &Stage) -> Result<Finding> {
    let (fault, rounds) = ("SQLite: the clock steps 10 min back and forward", stage.size(2, 10));
    let Some(clock) = Clock::set()? else {
        return Ok(Finding::new(fault).skipped("libfaketime is missing; Debian package libfaketime"));
    };
    let (folder, mut slowest) = (tempdir()?, Duration::ZERO);
    let program = clock.program_with(&stage.relay)?;
    let mut trial = Trial::begin_with(program, folder.path().join("log.db")).await?;
    for _ in 0..rounds {
        for seconds in [-600, 0] {
            clock.move_to(seconds)?;
            slowest = slowest.max(trial.until_held_by_the_clock(seconds).await?);
            trial.until_delivering().await?;
            tokio::time::sleep(Duration::from_millis(fastrand::u64(300..900))).await;
        }
    }
    trial.stop_writers().await?;
    let (verdict, _) = trial.end().await?;
    let dead = trial.posthaste.admin().subscription(SUBSCRIPTION).await?.dead;
    Ok(Finding::new(fault)
        .how(format!("{rounds} times each, 2 relays deliver meanwhile; 2 x {CONNECTIONS} writers"))
        .figures(&verdict, trial.plan.duplicates_of(2 * rounds))
        .recovery(slowest)
        .fact("dead", dead, dead.is_zero()))
}

/// A clock that can be moved, for programs that are told of it. The monotonic one stays as it is, as it would.
struct Clock {
    library: PathBuf,
    folder: TempDir,
}

impl Clock {
    /// None if the library that moves it is not there.
    fn set() -> Result<Option<Self>> {
        let folders = std::fs::read_dir("/usr/lib")?.filter_map(|entry| Some(entry.ok()?.path()));
        let mut libraries = folders.map(|folder| folder.join("faketime/libfaketimeMT.so.1"));
        let Some(library) = libraries.find(|library| library.is_file()) else { return Ok(None) };
        let clock = Self { library, folder: tempdir()? };
        clock.move_to(0)?;
        Ok(Some(clock))
    }

    fn file(&self) -> PathBuf {
        self.folder.path().join("moved")
    }

    /// At once: who reads the file while it is written would find it empty.
    fn move_to(&self, seconds: i64) -> Result<()> {
        let next = self.folder.path().join("next");
        std::fs::write(&next, format!("{seconds:+}\n"))?;
        Ok(std::fs::rename(next, self.file())?)
    }

    /// The same program, with this clock.
    fn program_with(&self, program: &Path) -> Result<PathBuf> {
        let script = self.folder.path().join("posthaste");
        let [library, file, program] =
            [&self.library, &self.file(), program].map(|path| path.display().to_string());
        let text = format!(
            "#!/bin/sh\nexport FAKETIME_NO_CACHE=1 FAKETIME_DONT_FAKE_MONOTONIC=1 FAKETIME_TIMESTAMP_FILE='{file}'\n\
             LD_PRELOAD='{library}' exec '{program}' \"$@\"\n"
        );
        std::fs::write(&script, text)?;
        std::fs::set_permissions(&script, Permissions::from_mode(0o755))?;
        Ok(script)
    }
}

struct Trial {
    plan: Plan,
    collector: Collector,
    relays: Vec<Relay>,
    writers: Vec<Writer>,
    pool: SqlitePool,
    posthaste: Posthaste,
    program: PathBuf,
    path: PathBuf,
    /// Of configurations and logs.
    folder: TempDir,
    /// Of the file, if it is the trial's own.
    _own: Option<TempDir>,
    /// The name of the next relay.
    started: usize,
}

impl Trial {
    async fn begin(stage: &Stage) -> Result<Self> {
        let folder = tempdir()?;
        let path = folder.path().join("log.db");
        Ok(Self { _own: Some(folder), ..Self::begin_with(stage.relay.clone(), path).await? })
    }

    /// With this program as the relay, in this file, which is not there yet.
    async fn begin_with(program: PathBuf, path: PathBuf) -> Result<Self> {
        let pool = open(&path);
        let posthaste = Posthaste::sqlite(pool.clone());
        posthaste.migrate().await?;
        pool.execute(
            "create table hot (key text primary key, n integer not null);
             create table written (id blob primary key, key text not null, place integer not null, payload blob not null)",
        )
        .await?;
        let mut trial = Self {
            plan: Plan::default(),
            collector: Collector::start().await?,
            relays: Vec::new(),
            writers: Vec::new(),
            pool,
            posthaste,
            program,
            path,
            folder: tempdir()?,
            _own: None,
            started: 0,
        };
        for _ in 0..2 {
            let relay = trial.new_relay()?;
            trial.relays.push(relay);
            trial.writers.push(Writer::start(&trial.path).await?);
        }
        trial.until_delivering().await?;
        Ok(trial)
    }

    fn new_relay(&mut self) -> Result<Relay> {
        self.started += 1;
        let (name, url) = (format!("relay-{}", self.started), format!("sqlite:{}", self.path.display()));
        Relay::start(&self.program, self.folder.path(), &name, &self.plan, &url, self.collector.port())
    }

    async fn until_delivering(&self) -> Result<()> {
        let (began, before) = (Instant::now(), self.collector.len());
        while self.collector.len() == before {
            if began.elapsed() > PATIENCE {
                return Err(format!("nothing arrives; a relay said last:\n{}", self.relays[0].words()).into());
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        Ok(())
    }

    /// Waits until every lane is held, with a lease that ends when a clock says which was moved so far: none is left to a lease
    /// that would go on for ten minutes. Also the control that the clock was moved. Gives how long it took.
    async fn until_held_by_the_clock(&self, seconds: i64) -> Result<Duration> {
        let sql = "select count(*) from posthaste_lanes where finished_at is null
                   and not coalesce(token is not null and abs(locked_until / 1000000 - unixepoch() - ?1) < 60, 0)";
        let began = Instant::now();
        while sqlx::query_scalar::<_, i64>(sql).bind(seconds).fetch_one(&self.pool).await? > 0 {
            if began.elapsed() > PATIENCE {
                return Err(format!("after a step to {seconds} s, a lane has no lease of that time").into());
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        Ok(began.elapsed())
    }

    fn kill_relay(&mut self, victim: usize) -> Result<()> {
        self.relays[victim].kill()?;
        self.relays[victim] = self.new_relay()?;
        Ok(())
    }

    async fn kill_writer(&mut self, victim: usize) -> Result<()> {
        let next = Writer::start(&self.path).await?;
        std::mem::replace(&mut self.writers[victim], next).kill().await
    }

    /// What the writers were told by the database, other than that all is well.
    async fn stop_writers(&mut self) -> Result<Vec<String>> {
        let mut complaints = Vec::new();
        for writer in self.writers.drain(..) {
            complaints.extend(writer.stop().await?);
        }
        Ok(complaints)
    }

    /// Waits until everything has arrived or nothing comes any more, ends the relays, and compares. Also how many lines of
    /// the relays speak of a locked database.
    async fn end(&mut self) -> Result<(Verdict, usize)> {
        let committed = committed(&self.pool).await?;
        let wanted: HashSet<EventId> = committed.iter().map(|committed| committed.id).collect();
        let (mut seen, mut since) = (0, Instant::now());
        while since.elapsed() < PATIENCE {
            let deliveries = self.collector.deliveries();
            let arrived: HashSet<EventId> = deliveries.iter().map(|delivery| delivery.accepted.id).collect();
            if wanted.is_subset(&arrived) {
                break;
            }
            if deliveries.len() > seen {
                (seen, since) = (deliveries.len(), Instant::now());
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        for relay in &mut self.relays {
            let status = relay.terminate().await?;
            if !status.success() {
                return Err(format!("a relay ended with {status}:\n{}", relay.words()).into());
            }
        }
        let ledger = Ledger::default();
        self.collector.deliveries().into_iter().for_each(|delivery| ledger.accept_raw(delivery.accepted));
        Ok((ledger.check(&committed), self.locked()?))
    }

    fn locked(&self) -> Result<usize> {
        let mut lines = 0;
        for entry in std::fs::read_dir(self.folder.path())? {
            let path = entry?.path();
            if path.extension().is_some_and(|extension| extension == "log") {
                let text = std::fs::read_to_string(path)?;
                lines += text.lines().filter(|line| line.contains("locked")).count();
            }
        }
        Ok(lines)
    }
}

fn open(path: &Path) -> SqlitePool {
    SqlitePoolOptions::new().max_connections(CONNECTIONS).connect_lazy_with(posthaste::sqlite_options(path))
}

/// What was committed, as the database knows it.
async fn committed(pool: &SqlitePool) -> Result<Vec<Committed>> {
    let rows = sqlx::query("select id, key, place, payload from written").fetch_all(pool).await?;
    let of = |row: &sqlx::sqlite::SqliteRow| Committed {
        id: EventId(row.get("id")),
        place: Some((row.get("key"), row.get::<i64, _>("place").unsigned_abs())),
        payload: row.get("payload"),
    };
    Ok(rows.iter().map(of).collect())
}

/// The other side: writes until standard input ends, and prints whatever it was told by the database.
pub(crate) async fn main(arguments: &[String]) -> Result<()> {
    let [path] = arguments else { return Err("write-sqlite needs a file".into()) };
    for _ in 0..CONNECTIONS {
        tokio::spawn(write_for_ever(PathBuf::from(path)));
    }
    println!("ready");
    tokio::io::stdin().read_to_end(&mut Vec::new()).await?;
    Ok(())
}

async fn write_for_ever(path: PathBuf) {
    let mut pool = open(&path);
    loop {
        if let Err(error) = one_transaction(&Posthaste::sqlite(pool.clone()), &pool).await {
            println!("{error}");
            // The driver may take a connection to be in a transaction that SQLite has ended.
            pool = open(&path);
        }
        tokio::time::sleep(Duration::from_millis(fastrand::u64(..40))).await;
    }
}

/// Holds the write lock for a while, and now and then for long.
async fn one_transaction(posthaste: &Posthaste, pool: &SqlitePool) -> Result<()> {
    let mut tx = pool.begin_with("BEGIN IMMEDIATE").await?;
    write(posthaste, &mut tx).await?;
    let longest = if fastrand::u8(..50) == 0 { 400 } else { 20 };
    tokio::time::sleep(Duration::from_millis(fastrand::u64(..longest))).await;
    match fastrand::u8(..100) < 15 {
        true => tx.rollback().await?,
        false => tx.commit().await?,
    }
    Ok(())
}

async fn write(posthaste: &Posthaste, connection: &mut SqliteConnection) -> Result<()> {
    let (key, count) = (format!("key-{}", fastrand::u32(..20)), fastrand::i64(1..4));
    let last: i64 = sqlx::query_scalar(
        "insert into hot values (?1, ?2) on conflict (key) do update set n = n + ?2 returning n",
    )
    .bind(&key)
    .bind(count)
    .fetch_one(&mut *connection)
    .await?;
    for place in last + 1 - count..=last {
        let payload = format!("{key}:{place}").into_bytes();
        let event = NewEvent::bytes(TOPIC, payload.clone()).key(&key);
        let id = posthaste.enqueue(&mut *connection, event).await?.id;
        let query = sqlx::query("insert into written values (?1, ?2, ?3, ?4)").bind(id.0).bind(&key);
        query.bind(place).bind(payload).execute(&mut *connection).await?;
    }
    Ok(())
}

/// A process of writers. Dropping it kills it.
struct Writer {
    child: Child,
    input: Option<ChildStdin>,
    output: Lines<BufReader<ChildStdout>>,
}

impl Writer {
    async fn start(path: &Path) -> Result<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        command.arg(COMMAND).arg(path).stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
        let mut child = command.spawn()?;
        let (input, output) = (child.stdin.take(), child.stdout.take().ok_or("no output")?);
        let mut output = BufReader::new(output).lines();
        match output.next_line().await? {
            Some(line) if line == "ready" => Ok(Self { child, input, output }),
            line => Err(format!("the writer said {line:?} instead of `ready`").into()),
        }
    }

    /// Ends it, in the middle of its transactions; returns what it complained about.
    async fn stop(mut self) -> Result<Vec<String>> {
        drop(self.input.take());
        let mut complaints = Vec::new();
        while let Some(line) = self.output.next_line().await? {
            complaints.push(line);
        }
        self.child.wait().await?;
        Ok(complaints)
    }

    /// SIGKILL.
    async fn kill(mut self) -> Result<()> {
        Ok(self.child.kill().await?)
    }
}
