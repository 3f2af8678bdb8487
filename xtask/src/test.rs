//! `cargo xtask test`: every test of the workspace, against servers of its own.

use std::env;
use std::ffi::OsString;
use std::path::Path;
use std::process::{Command, ExitCode};

use crate::guard::{self, Ending, Guarded};
use crate::results::{self, Results};
use crate::servers::Servers;
use crate::{Result, machine, usage_error, workspace_root};

/// Runs the tests and exits as `cargo test` did.
pub(crate) fn run(args: &[OsString]) -> Result<ExitCode> {
    let extra = match args.split_first() {
        None => &[],
        Some((dashes, extra)) if dashes == "--" => extra,
        Some((arg, _)) => {
            let arg = arg.display();
            return Ok(usage_error(&format!(
                "unexpected argument `{arg}`; arguments for cargo test follow `--`"
            )));
        }
    };
    let (servers, workspace) = (Servers::start()?, workspace_root()?);
    let folder = results::fresh_folder(&workspace)?;
    let status = Guarded::start(cargo_test(&servers, extra, &folder)?)?.wait()?;
    let results = Results::collect(&folder)?;
    servers.report();
    for (sink, reason) in &results.skipped {
        eprintln!("xtask: skipped: the sink suite on {sink} ({reason})");
    }
    if status.success() {
        results.write(&workspace)?;
    }
    if status.success() && servers.skip_is_a_failure() {
        return Err("in CI this skip counts as a failure".to_owned());
    }
    Ok(ExitCode::from(status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1)))
}

fn cargo_test(servers: &Servers, extra: &[OsString], results: &Path) -> Result<Command> {
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = guard::command(cargo, Ending::Terminate, None, None);
    command
        .arg("test")
        .args(features(extra))
        .args(selection(extra))
        .args(extra)
        .current_dir(workspace_root()?);
    machine::forget_pg_variables(&mut command);
    command.envs(servers.variables()).env("POSTHASTE_TEST_RESULTS", results);
    if let Some(name) = servers.absent() {
        command.env_remove(name);
    }
    Ok(command)
}

/// Cargo lets `--workspace` win over `-p`; whoever names a package wants that one only.
fn selection(extra: &[OsString]) -> Option<&'static str> {
    let own = extra.iter().take_while(|arg| *arg != "--");
    let mut words = own.map(|arg| arg.as_encoded_bytes());
    let names_package = words.any(|arg| arg.starts_with(b"-p") || arg.starts_with(b"--package"));
    (!names_package).then_some("--workspace")
}

/// Every sink is tested, unless somebody chooses features.
fn features(extra: &[OsString]) -> Option<&'static str> {
    let mut own = extra.iter().take_while(|arg| *arg != "--").map(|arg| arg.as_encoded_bytes());
    let chosen = own.any(|arg| arg.ends_with(b"features") || arg.starts_with(b"--features=") || arg == b"-F");
    (!chosen).then_some("--all-features")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_whole_workspace_is_tested_unless_a_package_is_named() {
        let args = |args: &[&str]| args.iter().map(OsString::from).collect::<Vec<_>>();
        assert_eq!(selection(&args(&["some_test", "--", "-p"])), Some("--workspace"));
        assert_eq!(selection(&args(&["-p", "posthaste"])), None);
        assert_eq!(selection(&args(&["--package=posthaste"])), None);
        assert_eq!(features(&args(&["-p", "posthaste"])), Some("--all-features"));
        assert_eq!(features(&args(&["--no-default-features"])), None);
    }
}
