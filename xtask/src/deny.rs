//! `cargo xtask deny`: licences, bans and sources of every dependency, and known holes where the database of advisories can be
//! reached. What is allowed stands in deny.toml. The program that judges is built once, in the target folder.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::thread;
use std::time::{Duration, Instant};

use crate::guard::{self, Ending, Guarded};
use crate::{Result, target_folder, without_arguments, workspace_root};

/// The one in PyPI is a program already, but too old to know the licences of today. Built without optimisation this takes
/// a minute on two cores; a check then takes a second.
const VERSION: &str = "0.20.2";

/// How long the database of advisories may take to come. It lies on another server than the crates.
const FETCH_WITHIN: Duration = Duration::from_secs(120);

pub(crate) fn run(args: &[OsString]) -> Result<ExitCode> {
    without_arguments(args, || {
        let workspace = workspace_root()?;
        let judge = Judge { program: install(&workspace)?, workspace };
        let lawful = judge.check(&["check", "licenses", "bans", "sources"])?;
        let sound = match judge.fetch_advisories()? {
            true => judge.check(&["check", "--disable-fetch", "advisories"])?,
            false => {
                eprintln!(
                    "xtask: skipped: advisories (their database cannot be fetched; its messages are above)"
                );
                true
            }
        };
        Ok(if lawful && sound { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    })
}

struct Judge {
    program: PathBuf,
    workspace: PathBuf,
}

impl Judge {
    fn check(&self, args: &[&str]) -> Result<bool> {
        let ended = Command::new(&self.program).args(args).current_dir(&self.workspace).status();
        ended.map(|status| status.success()).map_err(|error| format!("cargo-deny does not run: {error}"))
    }

    /// Whether it came in time.
    fn fetch_advisories(&self) -> Result<bool> {
        let mut command = guard::command(&self.program, Ending::Terminate, None, None);
        command.args(["fetch", "db"]).current_dir(&self.workspace);
        let (mut fetching, deadline) = (Guarded::start(command)?, Instant::now() + FETCH_WITHIN);
        while !fetching.has_ended() {
            if Instant::now() > deadline {
                return Ok(false);
            }
            thread::sleep(Duration::from_millis(50));
        }
        fetching.wait().map(|status| status.success())
    }
}

fn install(workspace: &Path) -> Result<PathBuf> {
    let target = target_folder(workspace);
    let root = target.join("tools").join(format!("cargo-deny-{VERSION}"));
    let program = root.join("bin/cargo-deny");
    if !program.exists() {
        eprintln!("xtask: building cargo-deny {VERSION}, once");
        let built = Command::new("cargo")
            .args(["install", "cargo-deny", "--locked", "--version", VERSION, "--debug", "--quiet", "--root"])
            .arg(&root)
            .env("CARGO_PROFILE_DEV_DEBUG", "0")
            .status();
        let built = built.map_err(|error| format!("cannot run cargo: {error}"))?;
        if !built.success() || !program.exists() {
            return Err(format!("cargo-deny {VERSION} could not be built; its messages are above"));
        }
    }
    Ok(program)
}
