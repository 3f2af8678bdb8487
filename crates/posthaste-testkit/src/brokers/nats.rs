//! A NATS server with JetStream.

use std::path::PathBuf;
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tempfile::TempDir;

use crate::process::{Process, free_port, program, until_listening};

/// A running server. It keeps what it acknowledged when it is killed and started again.
#[derive(Debug)]
pub struct NatsServer {
    program: PathBuf,
    folder: TempDir,
    port: u16,
    process: Mutex<Option<Process>>,
}

impl NatsServer {
    /// Starts a server with JetStream, or says what is missing. `config` is added to its configuration file.
    pub async fn start(config: &str) -> Result<Self, String> {
        let program = program("nats-server").ok_or("nats-server is missing; Debian package nats-server")?;
        let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
        let port = free_port();
        let store = folder.path().join("jetstream");
        let text = format!("listen: \"127.0.0.1:{port}\"\njetstream {{ store_dir: {store:?} }}\n{config}\n");
        std::fs::write(folder.path().join("nats.conf"), text).map_err(|error| error.to_string())?;
        let server = Self { program, folder, port, process: Mutex::default() };
        server.bring_back().await;
        Ok(server)
    }

    /// Where it listens.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Its address, without credentials.
    pub fn url(&self) -> String {
        format!("nats://127.0.0.1:{}", self.port)
    }

    /// A file or folder of its own, deleted with it.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Its version, as in `nats-server: v2.9.10`.
    pub fn version(&self) -> String {
        let output = Command::new(&self.program).arg("--version").output();
        output.map_or_else(|_| "nats-server".into(), |out| String::from_utf8_lossy(&out.stdout).trim().into())
    }

    /// SIGKILL.
    pub fn kill(&self) {
        drop(self.process().take());
    }

    /// Starts it again with what it has on disk.
    pub async fn bring_back(&self) {
        let mut command = Command::new(&self.program);
        command.arg("-c").arg(self.path("nats.conf"));
        *self.process() = Some(Process::start(&mut command, &self.path("log")));
        until_listening(self.port).await;
    }

    /// Its process id, while it runs.
    pub fn id(&self) -> Option<u32> {
        self.process().as_ref().map(Process::id)
    }

    fn process(&self) -> MutexGuard<'_, Option<Process>> {
        self.process.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
