//! Installs PostgreSQL from the distribution, without letting the package start a server of its own.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use crate::Result;
use crate::guard::{self, Ending, Guarded};
use crate::machine;

/// Debian's packages ask this program before they start a service; 101 means "you may not".
const POLICY: &str = "/usr/sbin/policy-rc.d";

/// A package source that cannot be refreshed need not be the one we want, so a failed update is no reason to give up.
/// Without a terminal of its own, because in a background group dpkg could be stopped when it asks for ours.
const SCRIPT: &str = "apt-get -qq update; \
    apt-get -qq -o DPkg::Lock::Timeout=300 -o Dpkg::Use-Pty=0 install -y --no-install-recommends postgresql";

/// Installs the server programs and returns where `find` sees them.
pub(super) fn install(find: impl Fn() -> Option<PathBuf>) -> Result<PathBuf> {
    if !machine::is_root() || machine::folder_with(&["apt-get"]).is_none() {
        return Err("there is no PostgreSQL server here; install one (on Debian and Ubuntu: `apt-get install postgresql` \
                    as root) or set POSTHASTE_TEST_PG_BINDIR to the folder of `initdb` and `postgres`"
            .to_owned());
    }
    let _lock = lock()?;
    // Another run may have installed it while we waited.
    if let Some(folder) = find() {
        return Ok(folder);
    }
    eprintln!("xtask: installing PostgreSQL with apt-get");
    run_apt_get(forbid_starting()?)?;
    find().ok_or_else(|| {
        "apt-get installed `postgresql`, but its `initdb` and `postgres` are nowhere".to_owned()
    })
}

/// One installation at a time, because the policy file must stay until the last one is through. Locking the file's
/// folder leaves no lock file behind.
fn lock() -> Result<File> {
    let folder = Path::new(POLICY).parent().unwrap_or(Path::new("/"));
    let file = File::open(folder).and_then(|file| file.lock().map(|()| file));
    file.map_err(|error| format!("cannot lock {}: {error}", folder.display()))
}

/// Writes the policy file, unless the machine has one already. Returns it if it is ours to remove.
fn forbid_starting() -> Result<Option<&'static Path>> {
    let created = OpenOptions::new().write(true).create_new(true).mode(0o755).open(POLICY);
    match created.and_then(|mut file| file.write_all(b"#!/bin/sh\nexit 101\n")) {
        Ok(()) => Ok(Some(Path::new(POLICY))),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(None),
        Err(error) => Err(format!("cannot write {POLICY}: {error}")),
    }
}

/// An interrupted installation would leave the machine's packages half-configured: once begun, it is let finish.
fn run_apt_get(policy: Option<&Path>) -> Result<()> {
    let mut command = guard::command("sh", Ending::Finish, policy, None);
    command.args(["-c", SCRIPT]).env("DEBIAN_FRONTEND", "noninteractive").stdout(Stdio::from(io::stderr()));
    match Guarded::start(command)?.wait()? {
        status if status.success() => Ok(()),
        _ => Err("`apt-get install postgresql` failed; its messages are above".to_owned()),
    }
}
