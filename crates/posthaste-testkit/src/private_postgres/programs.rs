//! Where the programs of PostgreSQL are, and how they are run.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::account::{Account, run_as};
use crate::process::program;

/// Set by `cargo xtask test`.
const VARIABLE: &str = "POSTHASTE_TEST_POSTGRES_PROGRAMS";

/// Where Debian and Ubuntu keep them, one folder per major version.
const PACKAGED: &str = "/usr/lib/postgresql";

/// A folder with the programs of one version, and who runs them.
#[derive(Debug, Clone)]
pub(super) struct Programs {
    folder: PathBuf,
    pub(super) account: Option<Account>,
}

impl Programs {
    /// Those that the environment names, else the highest version of the distribution, else what PATH leads to.
    pub(super) fn find() -> Result<Self, String> {
        let named = std::env::var_os(VARIABLE).map(PathBuf::from);
        let folder = named.or_else(|| packaged(Path::new(PACKAGED))).or_else(on_path);
        let folder = folder.filter(|folder| is_complete(folder));
        let folder = folder.ok_or("there are no programs of PostgreSQL; Debian package postgresql")?;
        Ok(Self { folder, account: Account::for_servers()? })
    }

    /// One of them, to be run as the account. Variables like `PGPORT` would silently point it somewhere else.
    pub(super) fn command(&self, name: &str) -> Command {
        let mut command = Command::new(self.folder.join(name));
        let names = std::env::vars_os().map(|(name, _)| name);
        names.filter(|name| name.as_encoded_bytes().starts_with(b"PG")).for_each(|name| {
            command.env_remove(name);
        });
        run_as(self.account, command.current_dir("/"));
        command
    }
}

/// Runs a program to its end, with its complaint if it fails.
pub(super) async fn run(command: Command) -> Result<(), String> {
    let name = command.get_program().display().to_string();
    let mut command = tokio::process::Command::from(command);
    let output = command.stdin(Stdio::null()).kill_on_drop(true).output().await;
    let output = output.map_err(|error| format!("{name}: {error}"))?;
    match output.status.success() {
        true => Ok(()),
        false => Err(format!("{name}: {}", String::from_utf8_lossy(&output.stderr).trim())),
    }
}

fn is_complete(folder: &Path) -> bool {
    ["initdb", "postgres"].iter().all(|name| folder.join(name).is_file())
}

fn packaged(root: &Path) -> Option<PathBuf> {
    let folders = std::fs::read_dir(root).ok()?.flatten().map(|entry| entry.path());
    let usable = folders.filter(|folder| is_complete(&folder.join("bin")));
    usable.max_by_key(|folder| major_version(folder)).map(|folder| folder.join("bin"))
}

fn major_version(folder: &Path) -> u32 {
    folder.file_name().and_then(|name| name.to_str()?.split('.').next()?.parse().ok()).unwrap_or(0)
}

/// Often a link into the real folder, where the others are.
fn on_path() -> Option<PathBuf> {
    Some(program("initdb")?.canonicalize().ok()?.parent()?.to_owned())
}
