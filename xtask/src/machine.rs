//! The machine we run on: who we are, which programs it has, and folders for temporary things.

use std::env;
use std::ffi::OsStr;
use std::fmt;
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{self, Command, Stdio};
use std::time::SystemTime;

use crate::Result;

/// An account that commands are run as, written `uid:gid`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Account {
    uid: u32,
    gid: u32,
}

impl Account {
    /// PostgreSQL refuses to run as root: as root this is the account to use instead, otherwise there is none.
    pub(crate) fn for_servers() -> Result<Option<Self>> {
        if !is_root() {
            return Ok(None);
        }
        let passwd =
            fs::read_to_string("/etc/passwd").map_err(|error| format!("cannot read /etc/passwd: {error}"))?;
        let found = ["postgres", "nobody"].iter().find_map(|name| Self::find(&passwd, name));
        found.map(Some).ok_or_else(|| "there is no user `postgres` or `nobody` to run servers as".to_owned())
    }

    fn find(passwd: &str, name: &str) -> Option<Self> {
        let fields = passwd.lines().map(|line| line.split(':').collect::<Vec<_>>()).find(|f| f[0] == name)?;
        Some(Self { uid: fields.get(2)?.parse().ok()?, gid: fields.get(3)?.parse().ok()? })
    }

    /// Reads what [`fmt::Display`] wrote; nothing means our own account.
    pub(crate) fn parse(text: &OsStr) -> Result<Option<Self>> {
        if text.is_empty() {
            return Ok(None);
        }
        let pair = text.to_str().and_then(|text| text.split_once(':'));
        let account =
            pair.and_then(|(uid, gid)| Some(Self { uid: uid.parse().ok()?, gid: gid.parse().ok()? }));
        account.map(Some).ok_or_else(|| format!("`{}` is no account", text.display()))
    }

    /// Makes a command run as this account, without any of our other groups.
    pub(crate) fn apply(self, command: &mut Command) {
        command.uid(self.uid).gid(self.gid);
    }
}

impl fmt::Display for Account {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.uid, self.gid)
    }
}

pub(crate) fn uid() -> u32 {
    rustix::process::geteuid().as_raw()
}

pub(crate) fn is_root() -> bool {
    uid() == 0
}

/// The folder of `PATH` in which all of these programs are found together.
pub(crate) fn folder_with(programs: &[&str]) -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    env::split_paths(&path).find(|folder| has_programs(folder, programs))
}

pub(crate) fn has_programs(folder: &Path, programs: &[&str]) -> bool {
    programs.iter().all(|program| is_program(&folder.join(program)))
}

fn is_program(path: &Path) -> bool {
    path.metadata().is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}

/// Whether the account can enter this folder. A clone in root's home is closed to everybody else.
pub(crate) fn can_enter(account: Option<Account>, folder: &Path) -> bool {
    let Some(account) = account else { return true };
    let mut command = Command::new("test");
    command.arg("-x").arg(folder).current_dir("/").stderr(Stdio::null());
    account.apply(&mut command);
    command.status().is_ok_and(|status| status.success())
}

/// A new, empty temporary folder that belongs to the account.
pub(crate) fn temporary_folder(prefix: &str, account: Option<Account>) -> Result<PathBuf> {
    let folder = unique_folder(&temporary_place(account), prefix)?;
    if let Some(account) = account {
        chown(&folder, Some(account.uid), Some(account.gid))
            .map_err(|error| format!("cannot hand over {}: {error}", folder.display()))?;
    }
    Ok(folder)
}

/// The usual temporary folder, unless the account cannot enter it or a socket's path in it would be too long (107 bytes).
fn temporary_place(account: Option<Account>) -> PathBuf {
    let usual = env::temp_dir();
    let usable = usual.as_os_str().len() < 50 && can_enter(account, &usual);
    if usable { usual } else { PathBuf::from("/tmp") }
}

/// A new folder whose name nobody else has.
pub(crate) fn unique_folder(parent: &Path, prefix: &str) -> Result<PathBuf> {
    loop {
        let nanos = SystemTime::UNIX_EPOCH.elapsed().map_or(0, |time| time.subsec_nanos());
        let folder = parent.join(format!("{prefix}-{}-{nanos:08x}", process::id()));
        match DirBuilder::new().mode(0o755).create(&folder) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(format!("cannot create {}: {error}", folder.display())),
            Ok(()) => return Ok(folder),
        }
    }
}

/// Takes away the PG* variables, which would silently point PostgreSQL's programs and clients somewhere else.
pub(crate) fn forget_pg_variables(command: &mut Command) {
    let names = env::vars_os().map(|(name, _)| name);
    names.filter(|name| name.as_encoded_bytes().starts_with(b"PG")).for_each(|name| {
        command.env_remove(name);
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_account_survives_being_written_and_read() {
        let account =
            Account::find("root:x:0:0::/root:/bin/sh\npostgres:x:101:103:,,,:/var:/bin/sh", "postgres");
        assert_eq!(account, Some(Account { uid: 101, gid: 103 }));
        let text = account.unwrap().to_string();
        assert_eq!(Account::parse(OsStr::new(&text)).unwrap(), account);
        assert_eq!(Account::parse(OsStr::new("")).unwrap(), None);
        assert!(Account::parse(OsStr::new("postgres")).is_err());
    }

    #[test]
    fn two_folders_never_share_a_name() {
        let first = unique_folder(&env::temp_dir(), "posthaste-xtask").unwrap();
        let second = unique_folder(&env::temp_dir(), "posthaste-xtask").unwrap();
        assert_ne!(first, second);
        fs::remove_dir(first).and(fs::remove_dir(second)).unwrap();
    }
}
