//! Installs packages of the distribution, without letting them start servers of their own.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::process::Stdio;

use crate::Result;
use crate::guard::{self, Ending, Guarded};
use crate::machine;

/// Debian's packages ask this program before they start a service; 101 means "you may not".
const POLICY: &str = "/usr/sbin/policy-rc.d";

/// A package source that cannot be refreshed need not be the one we want, so a failed update is no reason to give up.
/// Without a terminal of its own, because in a background group dpkg could be stopped when it asks for ours.
const SCRIPT: &str = "apt-get -qq update; \
    apt-get -qq -o DPkg::Lock::Timeout=300 -o Dpkg::Use-Pty=0 install -y --no-install-recommends \"$@\"";

/// Whether packages can be installed by us at all.
pub(crate) fn may_install() -> bool {
    machine::is_root() && machine::folder_with(&["apt-get"]).is_some()
}

/// Installs packages. Which ones is asked again once it is our turn: another run may have installed them meanwhile.
pub(crate) fn install(missing: impl Fn() -> Vec<&'static str>) -> Result<()> {
    let _lock = lock()?;
    let packages = missing();
    if packages.is_empty() {
        return Ok(());
    }
    eprintln!("xtask: installing {} with apt-get", packages.join(", "));
    run_apt_get(&packages, forbid_starting()?)
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
fn run_apt_get(packages: &[&str], policy: Option<&Path>) -> Result<()> {
    let mut command = guard::command("sh", Ending::Finish, policy, None);
    command.args(["-c", SCRIPT, "install"]).args(packages);
    command.env("DEBIAN_FRONTEND", "noninteractive").stdout(Stdio::from(io::stderr()));
    match Guarded::start(command)?.wait()? {
        status if status.success() => Ok(()),
        _ => Err(format!("`apt-get install {}` failed; its messages are above", packages.join(" "))),
    }
}
