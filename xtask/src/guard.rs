//! Processes that never outlive us. Each one is started by a guard, a second process of this binary that holds one end
//! of a pipe, the leash. When the leash goes slack, because we let go of it or because we are gone (Ctrl-C, SIGTERM or
//! even SIGKILL), the guard ends the whole process group of its command and removes its folder.
//!
//! Signal handlers could not do this: nobody handles SIGKILL, and installing one takes unsafe code.

use std::env;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, ExitStatus, Stdio};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process, kill_process_group};

use crate::Result;
use crate::machine::Account;

/// The word that makes this binary a guard.
pub(crate) const COMMAND: &str = "guard";

/// How guards call themselves in the process list. Not `xtask`, so that ending xtask by name leaves them to their work.
const NAME: &str = "posthaste-guard";

/// Longer than the five seconds PostgreSQL gives its own children before it kills them.
const GRACE: Duration = Duration::from_secs(8);

/// What the guard does to its command when the leash goes slack.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ending {
    /// Nothing: wait for it. For the package manager, which must not be stopped half-way.
    Finish,
    /// SIGTERM to its whole group, then SIGKILL.
    Terminate,
    /// SIGQUIT to the command alone, which is PostgreSQL's immediate shutdown, then SIGKILL to its whole group.
    Quit,
}

impl Ending {
    const ALL: [(Self, &'static str); 3] =
        [(Self::Finish, "finish"), (Self::Terminate, "terminate"), (Self::Quit, "quit")];

    fn word(self) -> &'static str {
        Self::ALL.iter().find(|(ending, _)| *ending == self).map_or("", |(_, word)| word)
    }

    fn parse(word: &OsStr) -> Result<Self> {
        let found = Self::ALL.iter().find(|(_, name)| word == *name);
        found.map(|(ending, _)| *ending).ok_or_else(|| format!("`{}` is no ending", word.display()))
    }

    /// Asks a command to end. Processes that are gone already are what we want.
    fn ask(self, leader: Pid) {
        let outcome = match self {
            Self::Finish => Ok(()),
            Self::Terminate => kill_process_group(leader, Signal::TERM),
            Self::Quit => kill_process(leader, Signal::QUIT),
        };
        outcome.ok();
    }
}

/// A command that will run under a guard, to be completed with arguments like any other.
///
/// `remove` is a file or folder the guard removes once the command has ended, for whatever reason.
pub(crate) fn command(
    program: impl AsRef<OsStr>,
    ending: Ending,
    remove: Option<&Path>,
    account: Option<Account>,
) -> Command {
    let mut command = Command::new(own_binary());
    command.arg0(NAME).arg(COMMAND).arg(ending.word());
    command.arg(remove.map_or(OsStr::new(""), Path::as_os_str));
    command.arg(account.map(|account| account.to_string()).unwrap_or_default());
    command.arg(program);
    command
}

/// The running binary, even if a build has replaced the file meanwhile.
fn own_binary() -> PathBuf {
    let link = PathBuf::from("/proc/self/exe");
    if link.exists() { link } else { env::current_exe().unwrap_or_else(|_| "xtask".into()) }
}

/// A running command and its leash. Dropping it ends the command and waits until its guard has cleaned up.
pub(crate) struct Guarded {
    guard: Child,
}

impl Guarded {
    /// Starts a command made by [`command`].
    pub(crate) fn start(mut command: Command) -> Result<Self> {
        // A group of its own, because Ctrl-C is sent to our whole group and must not reach the guard.
        command.stdin(Stdio::piped()).process_group(0);
        let guard = command.spawn().map_err(|error| format!("cannot start a guard process: {error}"))?;
        Ok(Self { guard })
    }

    /// Waits for the command to end by itself.
    pub(crate) fn wait(mut self) -> Result<ExitStatus> {
        // `Child::wait` would let go of the leash first, which means "end it now".
        let leash = self.guard.stdin.take();
        let status = self.guard.wait().map_err(|error| format!("lost sight of a guard process: {error}"));
        drop(leash);
        status
    }

    /// Whether the command has ended already.
    pub(crate) fn has_ended(&mut self) -> bool {
        !matches!(self.guard.try_wait(), Ok(None))
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        drop(self.guard.stdin.take());
        drop(self.guard.wait());
    }
}

/// The guard itself: runs `<ending> <remove> <account> <program> <args>...` and exits with the program's code.
pub(crate) fn run(args: &[OsString]) -> Result<ExitCode> {
    let [ending, remove, account, program, rest @ ..] = args else {
        return Err(format!("`{COMMAND}` is started by other commands only"));
    };
    // Best effort: the name only matters to people who end processes by name.
    rustix::thread::set_name(c"posthaste-guard").ok();
    let mut command = Command::new(program);
    command.args(rest).stdin(Stdio::null()).process_group(0);
    if let Some(account) = Account::parse(account)? {
        account.apply(&mut command);
    }
    let status = supervise(command, Ending::parse(ending)?);
    remove_all(Path::new(remove));
    let status = status.map_err(|error| format!("cannot run {}: {error}", program.display()))?;
    let code = status.code().or(status.signal().map(|signal| 128 + signal)).unwrap_or(1);
    Ok(ExitCode::from(u8::try_from(code).unwrap_or(1)))
}

fn supervise(mut command: Command, ending: Ending) -> io::Result<ExitStatus> {
    let mut child = command.spawn()?;
    if ending == Ending::Finish {
        return child.wait();
    }
    let leader = Pid::from_child(&child);
    thread::spawn(move || {
        wait_until_slack();
        ending.ask(leader);
        thread::sleep(GRACE);
        kill_group(leader);
    });
    let status = child.wait();
    // What the command left running in its group goes with it.
    kill_group(leader);
    status
}

/// Nobody ever writes to the leash, so reading it ends exactly when its other end is closed.
fn wait_until_slack() {
    drop(io::copy(&mut io::stdin().lock(), &mut io::sink()));
}

fn kill_group(leader: Pid) {
    kill_process_group(leader, Signal::KILL).ok();
}

fn remove_all(path: &Path) {
    if path.as_os_str().is_empty() {
        return;
    }
    if path.is_dir() { drop(fs::remove_dir_all(path)) } else { drop(fs::remove_file(path)) }
}
