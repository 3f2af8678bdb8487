//! A Pub/Sub server: Google's emulator where it is installed, else the in-memory fake of Google's Go library.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Weak};

use tempfile::TempDir;
use tokio::sync::Mutex;

use crate::process::{Process, free_port, program, until_listening};

/// A running server. It keeps everything in memory.
#[derive(Debug)]
pub struct PubsubServer {
    kind: Kind,
    port: u16,
    _process: Process,
    _folder: TempDir,
}

#[derive(Debug)]
enum Kind {
    /// With its version.
    Emulator(String),
    /// With the port for tests.
    Fake(u16),
}

/// The emulator takes seconds to start, so that tests which run at the same time share one. The last one ends it.
static RUNNING: Mutex<Weak<PubsubServer>> = Mutex::const_new(Weak::new());

impl PubsubServer {
    /// The server that runs, or a new one; the error names what is missing.
    pub async fn shared() -> Result<Arc<Self>, String> {
        let mut running = RUNNING.lock().await;
        if let Some(server) = running.upgrade() {
            return Ok(server);
        }
        let server = Arc::new(Self::start().await?);
        *running = Arc::downgrade(&server);
        Ok(server)
    }

    async fn start() -> Result<Self, String> {
        let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
        let port = free_port();
        let log = folder.path().join("log");
        let (kind, mut command) = match (program("java"), emulator_jar()) {
            (Some(java), Some(jar)) => emulator(&java, &jar, port),
            _ => fake(folder.path(), port).await?,
        };
        let process = Process::start(&mut command, &log);
        until_listening(port).await;
        if let Kind::Fake(admin) = kind {
            until_listening(admin).await;
        }
        Ok(Self { kind, port, _process: process, _folder: folder })
    }

    /// Where clients connect to.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// What it is, for results.
    pub fn name(&self) -> String {
        match &self.kind {
            Kind::Emulator(version) => format!("Google's emulator {version}"),
            Kind::Fake(_) => "pstest (a fake; read in the order of publishing)".to_owned(),
        }
    }

    /// Where to make topics and read messages if it is not the emulator, as servers/pstest/main.go tells.
    pub fn fake_port(&self) -> Option<u16> {
        match self.kind {
            Kind::Emulator(_) => None,
            Kind::Fake(admin) => Some(admin),
        }
    }
}

fn emulator(java: &Path, jar: &Path, port: u16) -> (Kind, Command) {
    let name = jar.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
    let version = name.trim_start_matches("cloud-pubsub-emulator-").trim_end_matches("-all").to_owned();
    let mut command = Command::new(java);
    command.arg("-jar").arg(jar).arg("--host=127.0.0.1").arg(format!("--port={port}"));
    (Kind::Emulator(version), command)
}

/// Where Debian's package and gcloud's own installer put it; the newest if there are several.
fn emulator_jar() -> Option<PathBuf> {
    let home = std::env::var("HOME").unwrap_or_default();
    let sdks = [
        "/usr/lib/google-cloud-sdk".to_owned(),
        "/usr/lib64/google-cloud-sdk".to_owned(),
        "/usr/local/google-cloud-sdk".to_owned(),
        "/opt/google-cloud-sdk".to_owned(),
        "/snap/google-cloud-cli/current".to_owned(),
        format!("{home}/google-cloud-sdk"),
    ];
    let jars =
        sdks.iter().filter_map(|sdk| std::fs::read_dir(format!("{sdk}/platform/pubsub-emulator/lib")).ok());
    let jars = jars.flatten().flatten().map(|entry| entry.path());
    jars.filter(|path| is_emulator(path)).max()
}

fn is_emulator(path: &Path) -> bool {
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    name.starts_with("cloud-pubsub-emulator-") && name.ends_with("-all.jar")
}

/// Debian's Go sources, which are built without modules, unless GOPATH says that they are elsewhere.
fn go_sources() -> Option<PathBuf> {
    let said = std::env::var_os("GOPATH").unwrap_or_default();
    let folders = std::env::split_paths(&said).chain([PathBuf::from("/usr/share/gocode")]);
    folders.into_iter().find(|folder| folder.join("src/cloud.google.com/go/pubsub/pstest").is_dir())
}

async fn fake(folder: &Path, port: u16) -> Result<(Kind, Command), String> {
    let missing = "neither Google's emulator (google-cloud-cli-pubsub-emulator and java) nor Debian's golang-go and golang-google-cloud-dev";
    let (go, sources) = program("go").zip(go_sources()).ok_or(missing)?;
    let server = folder.join("pstest");
    let mut building = tokio::process::Command::new(go);
    building.arg("build").arg("-o").arg(&server).arg(".");
    building.current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/servers/pstest"));
    building.env("GO111MODULE", "off").env("GOPATH", sources).env("GOCACHE", folder.join("cache"));
    let built = building.output().await.map_err(|error| error.to_string())?;
    if !built.status.success() {
        return Err(format!("pstest could not be built: {}", String::from_utf8_lossy(&built.stderr)));
    }
    let (mut command, admin) = (Command::new(server), free_port());
    command.arg("-port").arg(port.to_string()).arg("-admin").arg(admin.to_string());
    Ok((Kind::Fake(admin), command))
}
