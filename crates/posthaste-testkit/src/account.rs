//! The account that servers run as which refuse to run as root.

use std::io;
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

/// A user and its group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Account {
    uid: u32,
    gid: u32,
}

impl Account {
    /// As root the account to use instead of it, otherwise none: our own will do.
    pub(crate) fn for_servers() -> Result<Option<Self>, String> {
        if !rustix::process::geteuid().is_root() {
            return Ok(None);
        }
        let users =
            std::fs::read_to_string("/etc/passwd").map_err(|error| format!("/etc/passwd: {error}"))?;
        let found = ["postgres", "nobody"].iter().find_map(|name| Self::find(&users, name));
        found.map(Some).ok_or_else(|| "there is no user `postgres` or `nobody` to run a server as".to_owned())
    }

    fn find(users: &str, name: &str) -> Option<Self> {
        let mut lines = users.lines().map(|line| line.split(':').collect::<Vec<_>>());
        let fields = lines.find(|fields| fields[0] == name)?;
        Some(Self { uid: fields.get(2)?.parse().ok()?, gid: fields.get(3)?.parse().ok()? })
    }
}

/// Makes a command run as this account, without any of our other groups.
pub(crate) fn run_as(account: Option<Account>, command: &mut Command) {
    if let Some(Account { uid, gid }) = account {
        command.uid(uid).gid(gid);
    }
}

/// Hands a file or folder over.
pub(crate) fn give_to(account: Option<Account>, path: &Path) -> io::Result<()> {
    account.map_or(Ok(()), |Account { uid, gid }| chown(path, Some(uid), Some(gid)))
}

/// A folder that belongs to the account, deleted when dropped.
pub(crate) fn folder_for(account: Option<Account>) -> io::Result<TempDir> {
    let folder = tempfile::Builder::new().prefix("posthaste-").tempdir_in(place(account))?;
    give_to(account, folder.path())?;
    Ok(folder)
}

/// Where another account can enter, and where the name of a socket does not get too long (107 bytes).
fn place(account: Option<Account>) -> PathBuf {
    let usual = std::env::temp_dir();
    if account.is_none() && usual.as_os_str().len() < 50 { usual } else { PathBuf::from("/tmp") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_account_is_found_by_its_whole_name() {
        let users = "root:x:0:0::/root:/bin/sh\npostgres2:x:1:1::/:\npostgres:x:101:103:,,,:/var:/bin/sh\n";
        assert_eq!(Account::find(users, "postgres"), Some(Account { uid: 101, gid: 103 }));
        assert_eq!(Account::find(users, "nobody"), None);
    }
}
