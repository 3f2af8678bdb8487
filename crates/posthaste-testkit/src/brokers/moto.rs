//! moto's server from PyPI: a stand-in for Amazon's services. It keeps everything in memory, so put a
//! [`Gate`](crate::Gate) before it instead of killing it.

use std::path::PathBuf;
use std::process::Command;

use tempfile::TempDir;

use crate::process::{Process, free_port, program, until_listening};

/// The server. Dropping it ends it.
#[derive(Debug)]
pub struct Moto {
    _server: Process,
    port: u16,
    _folder: TempDir,
}

impl Moto {
    /// Starts it on a port of its own.
    pub async fn start() -> Result<Self, String> {
        let given = std::env::var_os("POSTHASTE_TEST_MOTO").map(PathBuf::from);
        let found = given.filter(|path| path.is_file()).or_else(|| program("moto_server"));
        let found = found.ok_or(
            "there is no moto_server; `cargo xtask test` installs PyPI's moto, or set POSTHASTE_TEST_MOTO",
        )?;
        let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
        let port = free_port();
        let mut command = Command::new(found);
        command.args(["-H", "127.0.0.1", "-p", &port.to_string()]);
        let server = Process::start(&mut command, &folder.path().join("moto.log"));
        until_listening(port).await;
        Ok(Self { _server: server, port, _folder: folder })
    }

    /// Where it listens.
    pub fn port(&self) -> u16 {
        self.port
    }
}
