//! Finds the server programs of the machine's own PostgreSQL, and installs them if there are none.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::Result;
use crate::apt;
use crate::machine::{self, Account};

/// What a private server needs.
const NEEDED: [&str; 2] = ["initdb", "postgres"];

/// Where Debian and Ubuntu keep them, one folder per major version.
const PACKAGED: &str = "/usr/lib/postgresql";

const OVERRIDE: &str = "POSTHASTE_TEST_PG_BINDIR";

/// A folder with the server programs of one version.
#[derive(Debug, Clone)]
pub(crate) struct Programs {
    pub(crate) folder: PathBuf,
    pub(crate) version: String,
}

impl Programs {
    /// Asks the server for its version, as the account that will run it: this proves that it runs at all.
    pub(crate) fn probe(folder: &Path, account: Option<Account>) -> Result<Self> {
        let mut command = Command::new(folder.join("postgres"));
        command.arg("--version").current_dir("/");
        if let Some(account) = account {
            account.apply(&mut command);
        }
        let output =
            command.output().map_err(|error| format!("cannot run {}/postgres: {error}", folder.display()))?;
        let text = String::from_utf8_lossy(&output.stdout);
        let version = text.split_whitespace().find(|word| word.starts_with(|c: char| c.is_ascii_digit()));
        match version {
            Some(version) => Ok(Self { folder: folder.to_owned(), version: version.to_owned() }),
            None => Err(format!(
                "{}/postgres does not run: {}",
                folder.display(),
                String::from_utf8_lossy(&output.stderr).trim()
            )),
        }
    }
}

/// The programs of the machine's own PostgreSQL.
pub(crate) fn distribution() -> Result<PathBuf> {
    if let Some(folder) = env::var_os(OVERRIDE) {
        return overridden(PathBuf::from(folder));
    }
    if find().is_none() {
        install()?;
    }
    find().ok_or_else(|| {
        "apt-get installed `postgresql`, but its `initdb` and `postgres` are nowhere".to_owned()
    })
}

fn install() -> Result<()> {
    if !apt::may_install() {
        return Err("there is no PostgreSQL server here; install one (on Debian and Ubuntu: `apt-get install postgresql` \
                    as root) or set POSTHASTE_TEST_PG_BINDIR to the folder of `initdb` and `postgres`"
            .to_owned());
    }
    apt::install(|| if find().is_some() { Vec::new() } else { vec!["postgresql"] })
}

fn overridden(folder: PathBuf) -> Result<PathBuf> {
    if machine::has_programs(&folder, &NEEDED) {
        return Ok(folder);
    }
    Err(format!("{OVERRIDE} is {}, where there is no `initdb` and `postgres`", folder.display()))
}

fn find() -> Option<PathBuf> {
    packaged(Path::new(PACKAGED)).or_else(on_path)
}

/// The highest version. A folder may hold client programs only, or belong to a version that was removed.
fn packaged(root: &Path) -> Option<PathBuf> {
    let folders = fs::read_dir(root).ok()?.flatten().map(|entry| entry.path());
    let usable = folders.filter(|folder| machine::has_programs(&folder.join("bin"), &NEEDED));
    usable.max_by_key(|folder| major_version(folder)).map(|folder| folder.join("bin"))
}

fn major_version(folder: &Path) -> u32 {
    folder.file_name().and_then(|name| name.to_str()?.split('.').next()?.parse().ok()).unwrap_or(0)
}

/// What `PATH` offers is often a link into the real folder, where the programs also find their library files.
fn on_path() -> Option<PathBuf> {
    let program = machine::folder_with(&NEEDED)?.join("initdb").canonicalize().ok()?;
    let folder = program.parent()?.to_owned();
    machine::has_programs(&folder, &NEEDED).then_some(folder)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn add_program(path: &Path) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "").unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    #[test]
    fn the_highest_complete_version_is_taken() {
        let root = machine::unique_folder(&env::temp_dir(), "posthaste-xtask").unwrap();
        assert_eq!(packaged(&root), None);
        for path in ["9.6/bin/initdb", "9.6/bin/postgres", "15/bin/initdb", "15/bin/postgres", "17/bin/psql"]
        {
            add_program(&root.join(path));
        }
        assert_eq!(packaged(&root), Some(root.join("15/bin")));
        fs::remove_dir_all(root).unwrap();
    }
}
