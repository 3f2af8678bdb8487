//! PgBouncer from the distribution's package: a pooler between clients and a PostgreSQL of this machine, as many
//! applications have it.

use std::ffi::OsStr;
use std::path::PathBuf;
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use sqlx::postgres::PgConnectOptions;
use tempfile::TempDir;

use crate::account::{Account, folder_for, run_as};
use crate::last_will::LastWill;
use crate::process::{Process, free_port, is_listening, program};

/// For how long a client keeps a connection to the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PoolMode {
    /// Until the client leaves.
    Session,
    /// Until the transaction ends: the next one may run on another connection.
    Transaction,
}

/// A pooler. Dropping it ends it.
#[derive(Debug)]
pub struct PgBouncer {
    running: Mutex<Option<Running>>,
    program: PathBuf,
    account: Option<Account>,
    port: u16,
    user: String,
    database: String,
    folder: TempDir,
}

#[derive(Debug)]
struct Running {
    _will: LastWill,
    process: Process,
}

impl PgBouncer {
    /// Starts one before a server that trusts its clients, with at most so many connections to each of its databases; or says
    /// what is missing.
    pub async fn before(url: &str, mode: PoolMode, pool_size: u16) -> Result<Self, String> {
        let program = program("pgbouncer").ok_or("pgbouncer is missing; Debian package pgbouncer")?;
        let server: PgConnectOptions = url.parse().map_err(|error| format!("{url}: {error}"))?;
        let account = Account::for_servers()?;
        let folder = folder_for(account).map_err(|error| error.to_string())?;
        let pooler = Self {
            running: Mutex::default(),
            program,
            account,
            port: free_port(),
            user: server.get_username().to_owned(),
            database: server.get_database().unwrap_or("postgres").to_owned(),
            folder,
        };
        pooler.configure(&server, mode, pool_size).map_err(|error| error.to_string())?;
        pooler.bring_back().await?;
        Ok(pooler)
    }

    fn configure(&self, server: &PgConnectOptions, mode: PoolMode, size: u16) -> std::io::Result<()> {
        let mode = match mode {
            PoolMode::Session => "session",
            PoolMode::Transaction => "transaction",
        };
        let (host, port, users) = (server.get_host(), server.get_port(), self.path("users"));
        // What many clients say when they connect, and PgBouncer refuses unless it is told to pass over it.
        let ignored = "extra_float_digits";
        let text = format!(
            "[databases]\n* = host={host} port={port}\n\n[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {}\n\
             unix_socket_dir =\nauth_type = trust\nauth_file = {}\npool_mode = {mode}\ndefault_pool_size = {size}\n\
             max_client_conn = 1000\nignore_startup_parameters = {ignored}\n",
            self.port,
            users.display()
        );
        std::fs::write(self.path("pgbouncer.ini"), text)?;
        std::fs::write(users, format!("\"{}\" \"\"\n", self.user))
    }

    /// Where it listens.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The same user and database as before, through the pooler.
    pub fn url(&self) -> String {
        self.url_of(&self.database)
    }

    /// Another database of the same server.
    pub fn url_of(&self, database: &str) -> String {
        format!("postgres://{}@127.0.0.1:{}/{database}", self.user, self.port)
    }

    /// SIGKILL.
    pub fn kill(&self) {
        drop(self.running().take());
    }

    /// Starts it again on the same port.
    pub async fn bring_back(&self) -> Result<(), String> {
        let mut command = Command::new(&self.program);
        run_as(self.account, command.arg(self.path("pgbouncer.ini")).current_dir("/"));
        let process = Process::start(&mut command, &self.path("log"));
        let id = process.id().to_string();
        let script = "kill -KILL \"$1\"; rm -rf \"$2\"";
        let will = LastWill::write(script, &[OsStr::new(&id), self.folder.path().as_os_str()])?;
        *self.running() = Some(Running { _will: will, process });
        while !is_listening(self.port) {
            if !self.is_running() {
                return Err(format!("pgbouncer did not start: {}", self.log()));
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        Ok(())
    }

    /// Whether it runs.
    pub fn is_running(&self) -> bool {
        self.running().as_mut().is_some_and(|running| running.process.is_running())
    }

    /// What it has printed so far.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.path("log")).unwrap_or_default()
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn running(&self) -> MutexGuard<'_, Option<Running>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
