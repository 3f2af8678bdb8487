//! `cargo xtask test`: every test of the workspace, against servers of its own.

use std::env;
use std::ffi::OsString;
use std::process::{Command, ExitCode};

use crate::guard::{self, Ending, Guarded};
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
    let servers = Servers::start()?;
    let status = Guarded::start(cargo_test(&servers, extra)?)?.wait()?;
    servers.report();
    if status.success() && servers.skip_is_a_failure() {
        return Err("in CI this skip counts as a failure".to_owned());
    }
    Ok(ExitCode::from(status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1)))
}

fn cargo_test(servers: &Servers, extra: &[OsString]) -> Result<Command> {
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = guard::command(cargo, Ending::Terminate, None, None);
    command.arg("test").args(selection(extra)).args(extra).current_dir(workspace_root()?);
    machine::forget_pg_variables(&mut command);
    command.envs(servers.variables());
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_whole_workspace_is_tested_unless_a_package_is_named() {
        let args = |args: &[&str]| args.iter().map(OsString::from).collect::<Vec<_>>();
        assert_eq!(selection(&args(&["some_test", "--", "-p"])), Some("--workspace"));
        assert_eq!(selection(&args(&["-p", "posthaste"])), None);
        assert_eq!(selection(&args(&["--package=posthaste"])), None);
    }
}
