//! A Redis server that writes everything to disk before it answers.

use std::path::PathBuf;
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::process::{Process, free_port, program, until_listening};

/// A running server. It keeps what it acknowledged when it is killed and started again.
#[derive(Debug)]
pub struct RedisServer {
    program: PathBuf,
    folder: TempDir,
    port: u16,
    options: Vec<String>,
    process: Mutex<Option<Process>>,
}

impl RedisServer {
    /// Starts a server, or says what is missing. `options` are words of its command line.
    pub async fn start(options: &[&str]) -> Result<Self, String> {
        let program =
            program("redis-server").ok_or("redis-server is missing; Debian package redis-server")?;
        let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
        let options = options.iter().map(ToString::to_string).collect();
        let server = Self { program, folder, port: free_port(), options, process: Mutex::default() };
        server.bring_back().await;
        Ok(server)
    }

    /// Where it listens.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Its address, without credentials.
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// A file or folder of its own, deleted with it.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Its version, as in `Redis server v=7.0.15`.
    pub fn version(&self) -> String {
        let output = Command::new(&self.program).arg("--version").output();
        let text = output.map(|out| String::from_utf8_lossy(&out.stdout).into_owned()).unwrap_or_default();
        text.split(" sha").next().unwrap_or("Redis server").trim().to_owned()
    }

    /// SIGKILL.
    pub fn kill(&self) {
        drop(self.process().take());
    }

    /// Starts it again with what it has on disk.
    pub async fn bring_back(&self) {
        let mut command = Command::new(&self.program);
        command.args(["--bind", "127.0.0.1", "--port", &self.port.to_string()]);
        command.arg("--dir").arg(self.folder.path());
        command.args(["--appendonly", "yes", "--appendfsync", "always", "--save", ""]).args(&self.options);
        *self.process() = Some(Process::start(&mut command, &self.path("log")));
        until_listening(self.port).await;
        while self.is_loading().await {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// It listens before it has read its file. Any answer but that will do, also one about a password.
    async fn is_loading(&self) -> bool {
        let asked = async {
            let mut stream = TcpStream::connect(("127.0.0.1", self.port)).await?;
            stream.write_all(b"PING\r\n").await?;
            let mut answer = [0; 8];
            stream.read_exact(&mut answer[..5]).await.map(|_| answer)
        };
        asked.await.map_or(true, |answer: [u8; 8]| answer.starts_with(b"-LOAD"))
    }

    /// Its process id, while it runs.
    pub fn id(&self) -> Option<u32> {
        self.process().as_ref().map(Process::id)
    }

    fn process(&self) -> MutexGuard<'_, Option<Process>> {
        self.process.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
