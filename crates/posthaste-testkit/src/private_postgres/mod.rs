//! PostgreSQL servers of one's own, for tests that take them away: crash and restart, a replica and its promotion, dump and
//! restore, a full disk, passwords and certificates that change. They run from the distribution's programs, in a temporary
//! folder, and go with the test.

use std::ffi::OsStr;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use sqlx::postgres::{PgConnectOptions, PgSslMode};
use sqlx::{ConnectOptions, PgConnection};
use tempfile::TempDir;

use crate::account::give_to;
use crate::brokers::certificate::Certificate;
use crate::gate::Gate;
use crate::last_will::LastWill;
use crate::process::Process;

mod programs;
mod setup;
mod access;
mod copies;

use programs::Programs;
pub use setup::PostgresSetup;

/// Longer than a start, a stop or a promotion takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);

/// What is usual. Nothing has to survive the machine, so nobody waits for its disk: a crash of the server loses nothing
/// all the same, since the system keeps what was written.
const USUAL: &[&str] = &[
    "listen_addresses=127.0.0.1",
    "fsync=off",
    "synchronous_commit=on",
    "max_connections=100",
    "max_prepared_transactions=20",
    "wal_retrieve_retry_interval=200ms",
    "log_min_messages=warning",
];

/// Ends the server and removes its folder. Killed at once, it would leave its shared memory behind in the kernel.
const WILL: &str = r#"kill -QUIT "$1"
for i in 1 2 3 4 5 6 7 8; do kill -0 "$1" || break; sleep 1; done
kill -KILL "$1"
rm -rf "$2""#;

/// A server of one's own. Dropping it stops it and removes its data.
#[derive(Debug)]
pub struct PrivatePostgres {
    running: Mutex<Option<Running>>,
    programs: Programs,
    port: u16,
    password: Mutex<Option<String>>,
    data: PathBuf,
    /// Where its changes come from, if it is a replica.
    replication: Option<Arc<Gate>>,
    setup: PostgresSetup,
    folder: TempDir,
}

#[derive(Debug)]
struct Running {
    _will: LastWill,
    process: Process,
}

impl PrivatePostgres {
    /// Starts one with these settings besides the usual ones, or says what is missing.
    pub async fn start(settings: &[&str]) -> Result<Self, String> {
        Self::setup().settings(settings).start().await
    }

    /// To say more about it before it is started.
    pub fn setup() -> PostgresSetup {
        PostgresSetup::default()
    }

    /// Where it listens.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Its database `postgres`, as its owner and with the password of the moment.
    pub fn url(&self) -> String {
        self.url_of("postgres")
    }

    /// One of its databases.
    pub fn url_of(&self, database: &str) -> String {
        let password = self.password().map(|password| format!(":{password}")).unwrap_or_default();
        format!("postgres://postgres{password}@127.0.0.1:{}/{database}", self.port)
    }

    /// A connection that needs no password and no TLS: through its socket.
    pub async fn admin(&self) -> Result<PgConnection, String> {
        let options = PgConnectOptions::new_without_pgpass().socket(self.folder.path()).port(self.port);
        let options = options.username("postgres").database("postgres").ssl_mode(PgSslMode::Disable);
        let connected = options.disable_statement_logging().connect().await;
        connected.map_err(|error| format!("PostgreSQL on port {}: {error}", self.port))
    }

    /// What it has printed so far.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.path("log")).unwrap_or_default()
    }

    /// Whether it runs. It ends by itself if it cannot write its log of changes, for example.
    pub fn is_running(&self) -> bool {
        self.running().as_mut().is_some_and(|running| running.process.is_running())
    }

    /// It ends without writing anything more, and all its connections with it. The next start recovers from its log.
    pub async fn crash(&self) {
        self.end(Signal::QUIT).await;
    }

    /// It ends all connections and then itself, in order.
    pub async fn stop(&self) {
        self.end(Signal::INT).await;
    }

    async fn end(&self, signal: Signal) {
        let running = self.running().take();
        if let Some(mut running) = running {
            running.process.send(signal);
            // One that does not end in time is killed when it is dropped.
            running.process.wait(PATIENCE).await;
        }
    }

    /// Starts it on the same port with the data it has, and waits until it takes connections. Otherwise the end of its log
    /// says why not.
    pub async fn start_again(&self) -> Result<(), String> {
        let process = self.spawn();
        let id = process.id();
        let will = LastWill::write(WILL, &[OsStr::new(&id.to_string()), self.folder.path().as_os_str()])?;
        *self.running() = Some(Running { _will: will, process });
        let deadline = Instant::now() + PATIENCE;
        while !self.is_ready(id) {
            if !self.is_running() || Instant::now() > deadline {
                self.running().take();
                return Err(format!(
                    "PostgreSQL did not start; the end of its log:\n  {}",
                    self.last_words()
                ));
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        Ok(())
    }

    fn spawn(&self) -> Process {
        let mut command = self.programs.command("postgres");
        command.arg("-D").arg(&self.data).args(["-p", &self.port.to_string()]);
        command.arg("-k").arg(self.folder.path());
        if self.setup.certificate.is_some() {
            let setting = |name, file| format!("{name}={}", self.path(file).display());
            command.args(["-c", "ssl=on", "-c", &setting("ssl_cert_file", "server.pem")]);
            command.args(["-c", &setting("ssl_key_file", "server.key")]);
        }
        let settings = USUAL.iter().copied().chain(self.setup.settings.iter().map(String::as_str));
        command.args(settings.flat_map(|setting| ["-c", setting]));
        Process::start(&mut command, &self.path("log"))
    }

    /// The first line of this file is who wrote it, the eighth the state of the server: `ready`, or `standby` for a replica.
    fn is_ready(&self, id: u32) -> bool {
        let text = std::fs::read_to_string(self.data.join("postmaster.pid")).unwrap_or_default();
        let lines: Vec<&str> = text.lines().map(str::trim).collect();
        lines.first().is_some_and(|line| *line == id.to_string())
            && lines.get(7).is_some_and(|state| ["ready", "standby"].contains(state))
    }

    fn last_words(&self) -> String {
        let log = self.log();
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(15)..].join("\n  ")
    }

    /// Puts a certificate where the server looks for it, for its eyes only.
    fn copy(&self, certificate: &Certificate) -> Result<(), String> {
        let files = [(&certificate.certificate_file, "server.pem"), (&certificate.key_file, "server.key")];
        files.iter().try_for_each(|(from, name)| {
            let to = self.path(name);
            let copied = std::fs::copy(from, &to).and_then(|_| give_to(self.programs.account, &to));
            let closed = copied.and_then(|()| std::fs::set_permissions(&to, Permissions::from_mode(0o600)));
            closed.map_err(|error| format!("{}: {error}", from.display()))
        })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn password(&self) -> Option<String> {
        self.password.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn running(&self) -> MutexGuard<'_, Option<Running>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for PrivatePostgres {
    fn drop(&mut self) {
        if let Some(mut running) = self.running().take() {
            running.process.send(Signal::QUIT);
            // Longer than the five seconds it gives its own processes. What is left after them is killed.
            let deadline = Instant::now() + Duration::from_secs(8);
            while running.process.is_running() && Instant::now() < deadline {
                std::thread::sleep(Duration::from_millis(5));
            }
        }
        remove(&self.data);
    }
}

/// Data outside of the server's folder would not go with it. Best effort: the place may be gone by now.
fn remove(data: &Path) {
    std::fs::remove_dir_all(data).ok();
}
