//! One private server: a fresh cluster in a temporary folder, on a free port of 127.0.0.1, gone without trace when
//! dropped. Durability is off (`fsync`) unless asked for, because nothing here outlives the machine.

use std::fs::{self, File, OpenOptions};
use std::io::Read;
use std::net::TcpListener;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use super::Programs;
use crate::Result;
use crate::guard::{self, Ending, Guarded};
use crate::machine::{self, Account};

/// `$1` is the folder of the programs, `$2` the server's folder, `$3` the port; further settings follow. Both steps in one script, so that a
/// single guard covers both. Not every machine knows the locale C.UTF-8; plain C does for tests. The shell puts off a
/// trapped signal until initdb is through: a killed initdb would leave its shared memory behind in the kernel.
const SCRIPT: &str = r#"
trap 'exit 1' QUIT
bin=$1 home=$2 port=$3
shift 3
init() { "$bin/initdb" -D "$home/data" -U postgres -A trust -E UTF8 --locale="$1" -N; }
init C.UTF-8 || { rm -rf "$home/data"; init C; } || exit
exec "$bin/postgres" -D "$home/data" -p "$port" -k "$home" -c listen_addresses=127.0.0.1 \
    -c fsync=off -c synchronous_commit=on -c max_connections=300 -c max_prepared_transactions=20 \
    -c shared_buffers=128MB -c max_wal_size=4GB -c log_min_messages=warning "$@"
"#;

const PATIENCE: Duration = Duration::from_secs(120);

/// A running server. Dropping it stops the server and removes its folder.
pub(crate) struct Server {
    pub(crate) version: String,
    pub(crate) port: u16,
    _process: Guarded,
}

/// Why a start failed: somebody else took the port in between, or something that trying again will not cure.
enum Failure {
    PortTaken,
    Other(String),
}

impl From<String> for Failure {
    fn from(sentence: String) -> Self {
        Self::Other(sentence)
    }
}

impl Server {
    /// Starts a server and waits until it accepts connections. The settings win over the usual ones.
    pub(crate) fn start(programs: &Programs, account: Option<Account>, settings: &[&str]) -> Result<Self> {
        for _ in 0..5 {
            match Self::try_start(programs, account, settings) {
                Err(Failure::PortTaken) => continue,
                Err(Failure::Other(sentence)) => return Err(sentence),
                Ok(server) => return Ok(server),
            }
        }
        Err(format!("PostgreSQL {} found its port taken five times in a row", programs.version))
    }

    pub(crate) fn url(&self) -> String {
        format!("postgres://postgres@127.0.0.1:{}/postgres", self.port)
    }

    fn try_start(
        programs: &Programs,
        account: Option<Account>,
        settings: &[&str],
    ) -> std::result::Result<Self, Failure> {
        let port = free_port()?;
        let home = machine::temporary_folder("posthaste-pg", account)?;
        let mut command = guard::command("sh", Ending::Quit, Some(&home), account);
        command.args(["-c", SCRIPT, "server"]).arg(&programs.folder).arg(&home).arg(port.to_string());
        command.args(settings.iter().flat_map(|setting| ["-c", setting]));
        command.current_dir(&home);
        machine::forget_pg_variables(&mut command);
        let mut log = log_into(&mut command, &home.join("log"))?;
        let mut process = Guarded::start(command)?;
        wait_until_ready(&mut process, &home)
            .map_err(|problem| explain(&format!("PostgreSQL {} {problem}", programs.version), &mut log))?;
        Ok(Self { version: programs.version.clone(), port, _process: process })
    }
}

/// The kernel picks one. Between our letting go of it and the server's taking it, it can be lost; then we start again.
fn free_port() -> Result<u16> {
    let listener = TcpListener::bind(("127.0.0.1", 0)).and_then(|listener| listener.local_addr());
    listener
        .map(|address| address.port())
        .map_err(|error| format!("there is no free port on 127.0.0.1: {error}"))
}

/// Sends all output to a file and returns a reader of it, which works even after the folder is gone.
fn log_into(command: &mut Command, path: &Path) -> Result<File> {
    let problem = |error| format!("cannot write {}: {error}", path.display());
    let log = OpenOptions::new().append(true).create_new(true).open(path).map_err(problem)?;
    command.stderr(log.try_clone().map_err(problem)?).stdout(log);
    File::open(path).map_err(problem)
}

fn wait_until_ready(process: &mut Guarded, home: &Path) -> std::result::Result<(), &'static str> {
    let deadline = Instant::now() + PATIENCE;
    while !is_ready(home) {
        if process.has_ended() {
            return Err("did not start");
        }
        if Instant::now() > deadline {
            return Err("did not become ready in time");
        }
        thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

/// The eighth line of this file is the server's state, for programs like us.
fn is_ready(home: &Path) -> bool {
    let state = fs::read_to_string(home.join("data/postmaster.pid"));
    state.is_ok_and(|text| text.lines().nth(7).is_some_and(|line| line.trim() == "ready"))
}

fn explain(problem: &str, log: &mut File) -> Failure {
    let mut text = String::new();
    // Without a readable log the problem alone has to do.
    drop(log.read_to_string(&mut text));
    if text.contains("Address already in use") {
        return Failure::PortTaken;
    }
    let lines: Vec<&str> = text.lines().collect();
    let last = lines[lines.len().saturating_sub(15)..].join("\n  ");
    Failure::Other(format!("{problem}; the end of its log:\n  {last}"))
}
