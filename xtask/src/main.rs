//! The project's own tasks, run as `cargo xtask <command>`. This file owns the list of commands and nothing else.

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

mod guard;
mod machine;
mod apt;
mod postgres;
mod packages;
mod prepare;
mod servers;
mod results;
mod captures;
mod test;
mod bench;
mod faults;
mod deny;
mod tidy;

/// How every task ends: an exit code, or a sentence for the person who started it.
type Result<T> = std::result::Result<T, String>;

struct Command {
    name: &'static str,
    about: &'static str,
    run: fn(&[OsString]) -> Result<ExitCode>,
}

const COMMANDS: &[Command] = &[
    Command {
        name: "prepare",
        about: "install what builds and tests need: C headers, brokers, private Python and Node packages",
        run: prepare::run,
    },
    Command {
        name: "test",
        about: "run every test against private servers; `test -- ARGS` passes ARGS to cargo test",
        run: test::run,
    },
    Command {
        name: "servers",
        about: "start the same servers and print their addresses, until Ctrl-C or the end of standard input",
        run: servers::run,
    },
    Command {
        name: "bench",
        about: "measure Posthaste side by side with its peers; `--quick` asserts counts only, `--list` names the rows, \
                `--docs` writes charts and page",
        run: bench::run,
    },
    Command {
        name: "faults",
        about: "try every fault and print the scorecard; `--quick` tries all of them shortly, `--list` names the rows, `--only NAME` \
                chooses some",
        run: faults::run,
    },
    Command {
        name: "captures",
        about: "run the built command on a small scene and write what it printed into docs/guide/screens.md",
        run: captures::run,
    },
    Command {
        name: "deny",
        about: "check licences, bans and sources of the dependencies, and advisories where their database can be reached",
        run: deny::run,
    },
    Command {
        name: "tidy",
        about: "check what the compiler does not: module order, headers, SQL files, links, changelog",
        run: tidy::run,
    },
];

fn main() -> ExitCode {
    let args: Vec<OsString> = env::args_os().skip(1).collect();
    // The guard is one of our own processes, not something to type: it is not in the list.
    let outcome = match args.split_first() {
        Some((name, rest)) if name == guard::COMMAND => guard::run(rest),
        _ => dispatch(&args),
    };
    outcome.unwrap_or_else(|sentence| {
        eprintln!("xtask: {sentence}");
        ExitCode::FAILURE
    })
}

fn dispatch(args: &[OsString]) -> Result<ExitCode> {
    let Some((name, rest)) = args.split_first() else { return Ok(help()) };
    // What follows `--` is for cargo test, its `--help` too.
    if args.iter().take_while(|arg| *arg != "--").any(|arg| arg == "--help" || arg == "-h" || arg == "help") {
        return Ok(help());
    }
    match COMMANDS.iter().find(|command| name == command.name) {
        Some(command) => (command.run)(rest),
        None => Ok(usage_error(&format!("there is no command `{}`", name.display()))),
    }
}

fn help() -> ExitCode {
    println!("Usage: cargo xtask <command>\n");
    for command in COMMANDS {
        println!("  {:8} {}", command.name, command.about);
    }
    ExitCode::SUCCESS
}

/// A mistake on the command line is told apart from a task that failed by its exit code, 2.
fn usage_error(sentence: &str) -> ExitCode {
    eprintln!("xtask: {sentence}; `cargo xtask --help` lists what there is");
    ExitCode::from(2)
}

/// Refuses arguments to a command that takes none.
fn without_arguments(args: &[OsString], run: impl FnOnce() -> Result<ExitCode>) -> Result<ExitCode> {
    match args.first() {
        Some(arg) => Ok(usage_error(&format!("unexpected argument `{}`", arg.display()))),
        None => run(),
    }
}

/// The workspace's root. Cargo names the package's folder at run time; a moved clone would outdate a compiled-in path.
fn workspace_root() -> Result<PathBuf> {
    let package = env::var_os("CARGO_MANIFEST_DIR").unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into());
    let root = PathBuf::from(package).join("..");
    root.canonicalize().map_err(|error| format!("cannot find the workspace at {}: {error}", root.display()))
}

/// Where cargo puts what it builds, and we what we download.
fn target_folder(workspace: &Path) -> PathBuf {
    workspace.join(env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into()))
}
