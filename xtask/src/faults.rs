//! `cargo xtask faults`: builds everything, starts the servers, and runs the program that tries every fault. A whole run
//! writes its table into docs/reference/faults.md.

use std::env;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use serde_json::Value;

use crate::guard::{self, Ending, Guarded};
use crate::servers::Servers;
use crate::{Result, machine, target_folder, workspace_root};

const PROGRAM: &str = "posthaste-faults";
const PAGE: &str = "docs/reference/faults.md";
/// The sinks that the trials deliver to.
const RELAY_FEATURES: &str = "webhook nats redis rabbitmq";

/// Exits as the program did. All arguments are for it.
pub(crate) fn run(args: &[OsString]) -> Result<ExitCode> {
    let workspace = workspace_root()?;
    let tries = tries_something(args);
    let servers = tries.then(Servers::start).transpose()?;
    let built = build(&workspace, tries)?;
    let mut command = guard::command(program_in(&built)?, Ending::Terminate, None, None);
    command.args(args).arg("--built").arg(&built).current_dir(&workspace);
    if tries && !has(args, "--quick") && !has(args, "--relay") {
        command.arg("--relay").arg(build_relay(&workspace)?);
    }
    if writes_the_page(args) {
        command.arg("--page").arg(workspace.join(PAGE));
    }
    machine::forget_pg_variables(&mut command);
    if let Some(servers) = &servers {
        command.envs(servers.variables());
        if let Some(name) = servers.absent() {
            command.env_remove(name);
        }
    }
    let status = Guarded::start(command)?.wait()?;
    if let Some(servers) = &servers {
        servers.report();
    }
    Ok(ExitCode::from(status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1)))
}

fn has(args: &[OsString], flag: &str) -> bool {
    args.iter().any(|arg| arg == flag || arg.to_string_lossy().starts_with(&format!("{flag}=")))
}

fn tries_something(args: &[OsString]) -> bool {
    !has(args, "--list") && !has(args, "--from")
}

/// What was tried in part or in a hurry is no scorecard.
fn writes_the_page(args: &[OsString]) -> bool {
    !["--list", "--quick", "--only", "--page"].iter().any(|flag| has(args, flag))
}

/// The relay as it is shipped: how long the others wait for a fault says nothing about users if most of it is a debug build's.
fn build_relay(workspace: &Path) -> Result<PathBuf> {
    let mut command = cargo(workspace);
    command.args(["build", "--release", "-p", "posthaste-cli", "--features", RELAY_FEATURES]);
    match command.status().map_err(|error| format!("cannot run cargo: {error}"))?.success() {
        true => Ok(target_folder(workspace).join("release/posthaste")),
        false => Err("the build failed; its messages are above".to_owned()),
    }
}

fn cargo(workspace: &Path) -> Command {
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(workspace);
    command
}

/// The same programs that `cargo xtask test` builds; returns the file with what cargo said.
fn build(workspace: &Path, everything: bool) -> Result<PathBuf> {
    let target = target_folder(workspace);
    fs::create_dir_all(&target).map_err(|error| format!("cannot create {}: {error}", target.display()))?;
    let file = target.join("faults-built.json");
    let problem = |error| format!("cannot write {}: {error}", file.display());
    let mut command = cargo(workspace);
    match everything {
        true => command.args(["test", "--workspace", "--all-features", "--no-run"]),
        false => command.args(["build", "-p", PROGRAM]),
    };
    command.arg("--message-format=json-render-diagnostics");
    let status = command.stdout(File::create(&file).map_err(problem)?).status().map_err(problem)?;
    match status.success() {
        true => Ok(file),
        false => Err("the build failed; its messages are above".to_owned()),
    }
}

fn program_in(built: &Path) -> Result<PathBuf> {
    let text = fs::read_to_string(built).map_err(|error| format!("{}: {error}", built.display()))?;
    let mut programs =
        text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok()).filter_map(|message| {
            let path = PathBuf::from(message["executable"].as_str()?);
            (path.file_name() == Some(OsStr::new(PROGRAM))).then_some(path)
        });
    programs.next_back().ok_or_else(|| format!("cargo built no program {PROGRAM}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(args: &str) -> Vec<OsString> {
        args.split_whitespace().map(OsString::from).collect()
    }

    #[test]
    fn only_a_whole_run_writes_the_page() {
        for args in ["", "--json run.json", "--from run.json"] {
            assert!(writes_the_page(&words(args)), "{args}");
        }
        for args in ["--quick", "--only kill", "--only=kill", "--list", "--page other.md"] {
            assert!(!writes_the_page(&words(args)), "{args}");
        }
        assert!(tries_something(&words("--quick")) && !tries_something(&words("--from run.json")));
    }
}
