//! moto's server from PyPI: a stand-in for Amazon's services. It keeps everything in memory, so put a
//! [`Gate`](crate::Gate) before it instead of killing it.

use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use crate::process::{Process, free_port, program, until_listening};

/// Starts the server with two repairs. moto forgets a message that is sent while another one is being deleted, because
/// deleting replaces the list of messages; and it looks through the whole queue several times for every message, which
/// takes seconds for some hundred of them.
const LAUNCH: &str = "
import sys
from moto.sqs import models

def delete_message(queue, handle):
    for message in list(queue._messages):
        if message.had_receipt_handle(handle):
            queue.pending_messages.discard(message)
            queue.deleted_messages.update(message.all_receipt_handles)
            queue._messages.remove(message)
            return
    if handle not in queue.deleted_messages:
        raise models.ReceiptHandleIsInvalid()

def visible(queue):
    return (message for message in list(queue._messages) if message.visible and not message.delayed)

models.Queue.delete_message = delete_message
models.Queue.messages = property(visible)
for end in ['', '_delayed', '_not_visible']:
    count = property(lambda queue: len(queue._messages))
    setattr(models.Queue, 'approximate_number_of_messages' + end, count)

from moto.server import main
main(sys.argv[1:])
";

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
        let mut command = Command::new(interpreter(&found)?);
        command.args(["-c", LAUNCH, "-H", "127.0.0.1", "-p", &port.to_string()]);
        let server = Process::start(&mut command, &folder.path().join("moto.log"));
        until_listening(port).await;
        Ok(Self { _server: server, port, _folder: folder })
    }

    /// Where it listens.
    pub fn port(&self) -> u16 {
        self.port
    }
}

/// The Python that the script belongs to, with its modules.
fn interpreter(script: &Path) -> Result<String, String> {
    let text = std::fs::read_to_string(script).map_err(|error| format!("{}: {error}", script.display()))?;
    let first = text.lines().next().and_then(|line| line.strip_prefix("#!"));
    let python = first.and_then(|line| line.split_whitespace().next()).map(str::to_owned);
    python.ok_or_else(|| format!("{} does not say which Python it is for", script.display()))
}
