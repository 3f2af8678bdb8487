//! The promise of the guard: nothing it started outlives the process that asked for it.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use std::{env, process, thread};

/// A guard over a shell script, with a folder to remove.
fn guard(ending: &str, folder: &Path, script: &str) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_xtask"));
    command.args(["guard", ending]).arg(folder).args(["", "sh", "-c", script]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap()
}

fn folder(name: &str) -> PathBuf {
    let folder = env::temp_dir().join(format!("posthaste-guard-{name}-{}", process::id()));
    fs::create_dir_all(folder.join("inside")).unwrap();
    folder
}

/// Reads the process ids that the script prints, one per line.
fn printed_pids(guard: &mut Child, count: usize) -> Vec<u32> {
    let lines = BufReader::new(guard.stdout.take().unwrap()).lines();
    lines.take(count).map(|line| line.unwrap().parse().unwrap()).collect()
}

fn is_running(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"));
    // A zombie has ended; it only waits for whoever adopted it to take note.
    stat.is_ok_and(|stat| !stat.contains(") Z "))
}

/// A killed process is gone a moment after the signal was sent.
fn wait_until_gone(pid: u32) {
    let deadline = Instant::now() + Duration::from_secs(10);
    while is_running(pid) {
        assert!(Instant::now() < deadline, "process {pid} is still there");
        thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_slack_leash_ends_the_command_its_children_and_its_folder() {
    for ending in ["terminate", "quit"] {
        let folder = folder(ending);
        let mut guard = guard(ending, &folder, "sleep 600 & echo $!; echo $$; wait");
        let pids = printed_pids(&mut guard, 2);
        assert!(pids.iter().copied().all(is_running));
        drop(guard.stdin.take());
        guard.wait().unwrap();
        pids.into_iter().for_each(wait_until_gone);
        assert!(!folder.exists());
    }
}

#[test]
fn a_command_that_must_finish_is_let_finish() {
    let folder = folder("finish");
    let mut guard = guard("finish", &folder, "echo $$; sleep 1; exit 7");
    printed_pids(&mut guard, 1);
    drop(guard.stdin.take());
    assert_eq!(guard.wait().unwrap().code(), Some(7));
    assert!(!folder.exists());
}

#[test]
fn a_command_that_ends_by_itself_passes_on_its_exit_code() {
    let folder = folder("code");
    let mut guard = guard("terminate", &folder, "exit 3");
    let leash = guard.stdin.take();
    assert_eq!(guard.wait().unwrap().code(), Some(3));
    assert!(!folder.exists());
    drop(leash);
}
