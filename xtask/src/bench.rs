//! `cargo xtask bench`: a private PostgreSQL as one would run it, the peers from their registries, and the program that
//! measures all of them in turns. Peers that cannot be had are skipped by name.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, ExitStatus};

use crate::guard::{self, Ending, Guarded};
use crate::machine::{self, Account};
use crate::postgres::{self, Programs, Server};
use crate::{Result, apt, prepare, target_folder, workspace_root};

/// As one would run it, and so large that no checkpoint falls into a sample.
const SETTINGS: &[&str] = &[
    "fsync=on",
    "synchronous_commit=on",
    "full_page_writes=on",
    "shared_buffers=2GB",
    "max_wal_size=8GB",
    "checkpoint_timeout=30min",
    "shared_preload_libraries=pg_stat_statements",
];

const PEERS: &str = "crates/posthaste-bench/peers";
const RUST_PEERS: [&str; 4] = ["obix", "graphile_worker", "outbox-postgres", "gears"];

/// Builds, measures, and exits as the measuring program did. All arguments are for that one; `--docs` gets the folder.
pub(crate) fn run(args: &[OsString]) -> Result<ExitCode> {
    let workspace = workspace_root()?;
    let args = &with_docs(args, &workspace);
    let (listing, quick) = (measures_nothing(args), has(args, "--quick"));
    if !listing {
        prepare::prepare()?;
    }
    // The brokers are a matter of time only, and their clients take minutes to build.
    let wanted = !has(args, "--only") || args.iter().any(|arg| arg.to_string_lossy().ends_with("brokers"));
    let built = build(&workspace, wanted && !listing && !quick)?;
    let program = built.join("posthaste-bench");
    if listing {
        let ended = Command::new(program).args(args).status();
        return ended.map(code_of).map_err(|error| format!("the bench does not run: {error}"));
    }
    let folder = postgres::distribution()?;
    let account = Account::for_servers()?;
    let programs = Programs::probe(&folder, account)?;
    install_pgq(&programs);
    let server = Server::start(&programs, account, SETTINGS)?;
    let mut command = guard::command(program, Ending::Terminate, None, None);
    command.arg("--postgres").arg(server.url()).arg("--relay").arg(built.join("posthaste"));
    // Counts need nobody to compare with.
    if !quick {
        let target = target_folder(&workspace).join("peers");
        command.arg("--rust-peers").arg(rust_peers(&workspace, &target)?);
        match node_peers(&workspace, &target) {
            Ok(folder) => drop(command.arg("--node-peers").arg(folder)),
            Err(sentence) => eprintln!("xtask: skipped: the peers for Node ({sentence})"),
        }
    }
    command.args(args).current_dir(env::current_dir().map_err(|error| error.to_string())?);
    machine::forget_pg_variables(&mut command);
    Guarded::start(command)?.wait().map(code_of)
}

/// `--docs` means the project's own pages.
fn with_docs(args: &[OsString], workspace: &Path) -> Vec<OsString> {
    let folder = |arg: &OsString| (arg == "--docs").then(|| workspace.join("docs/reference").into());
    args.iter().flat_map(|arg| [Some(arg.clone()), folder(arg)]).flatten().collect()
}

/// Whether no server is needed: for a list, for pages from a file, and for what the program refuses at once.
fn measures_nothing(args: &[OsString]) -> bool {
    let has = |flag| has(args, flag);
    has("--list") || has("--from") || has("--docs") && (has("--only") || has("--quick"))
}

fn has(args: &[OsString], flag: &str) -> bool {
    args.iter().any(|arg| arg.to_string_lossy().split('=').next() == Some(flag))
}

fn code_of(status: ExitStatus) -> ExitCode {
    ExitCode::from(status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1))
}

fn cargo(workspace: &Path) -> Command {
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = guard::command(cargo, Ending::Terminate, None, None);
    command.current_dir(workspace);
    command
}

/// The relay is built apart from the clients of the brokers, or it would get them as well and not be the one that people run.
fn build(workspace: &Path, brokers: bool) -> Result<PathBuf> {
    let mut parts: Vec<&[&str]> = vec![&["-p", "posthaste-cli"]];
    match brokers {
        false => parts.push(&["-p", "posthaste-bench"]),
        true => {
            parts.push(&["-p", "posthaste-bench", "--features", "brokers"]);
            parts.push(&["-p", "posthaste-sinks", "--features", "kafka", "--example", "kafka_mock"]);
        }
    }
    for part in parts {
        let mut command = cargo(workspace);
        command.args(["build", "--release"]).args(part);
        if !Guarded::start(command)?.wait()?.success() {
            return Err("the bench does not build; cargo's messages are above".to_owned());
        }
    }
    Ok(target_folder(workspace).join("release"))
}

/// It exists only as a package for the machine's own PostgreSQL. Without it the others are measured.
fn install_pgq(programs: &Programs) {
    let major = programs.version.split('.').next().unwrap_or_default();
    let there =
        || fs::exists(format!("/usr/share/postgresql/{major}/extension/pgq.control")).unwrap_or(false);
    if !there() && apt::may_install() {
        let package: &'static str = String::leak(format!("postgresql-{major}-pgq3"));
        let missing = || if there() { Vec::new() } else { vec![package] };
        apt::install(missing).unwrap_or_else(|sentence| eprintln!("xtask: {sentence}"));
    }
}

/// One build each: one that does not build leaves the others alone.
fn rust_peers(workspace: &Path, target: &Path) -> Result<PathBuf> {
    for peer in RUST_PEERS {
        let mut command = cargo(workspace);
        command.args(["build", "--release", "--locked", "--features", peer, "--manifest-path"]);
        command.arg(format!("{PEERS}/rust/Cargo.toml")).arg("--target-dir").arg(target);
        if !Guarded::start(command)?.wait()?.success() {
            eprintln!("xtask: skipped: {peer} (it does not build; cargo's messages are above)");
        }
    }
    Ok(target.join("release"))
}

/// Installed outside of the sources.
fn node_peers(workspace: &Path, target: &Path) -> Result<PathBuf> {
    if machine::folder_with(&["npm"]).is_none() {
        return Err("npm not found".to_owned());
    }
    let (from, to) = (workspace.join(PEERS).join("node"), target.join("node"));
    let problem = |error| format!("{}: {error}", to.display());
    fs::create_dir_all(&to).map_err(problem)?;
    for entry in fs::read_dir(&from).map_err(problem)?.flatten().filter(|entry| entry.path().is_file()) {
        fs::copy(entry.path(), to.join(entry.file_name())).map_err(problem)?;
    }
    let mut command = guard::command("npm", Ending::Terminate, None, None);
    command
        .args(["ci", "--no-audit", "--no-fund", "--no-update-notifier", "--loglevel=error"])
        .current_dir(&to);
    match Guarded::start(command)?.wait()?.success() {
        true => Ok(to),
        false => Err("npm ci failed; its messages are above".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(args: &str) -> Vec<OsString> {
        args.split_whitespace().map(OsString::from).collect()
    }

    #[test]
    fn docs_are_those_of_the_project() {
        let with = |args: &str| with_docs(&words(args), Path::new("/clone"));
        assert_eq!(with("--docs --rounds 5"), words("--docs /clone/docs/reference --rounds 5"));
        assert_eq!(with("--only drain"), words("--only drain"));
    }

    #[test]
    fn a_server_is_started_only_to_measure() {
        for args in [
            "--list",
            "--docs --from run.json",
            "--docs --only drain",
            "--only=drain --docs",
            "--quick --docs",
        ] {
            assert!(measures_nothing(&words(args)), "{args}");
        }
        for args in ["", "--docs", "--docs --json run.json", "--quick", "--only drain"] {
            assert!(!measures_nothing(&words(args)), "{args}");
        }
    }
}
