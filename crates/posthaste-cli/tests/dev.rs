//! The built binary, as a newcomer meets it: `posthaste dev`, its summary, its end, and its answers to mistakes.

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use serde_json::Value;

fn posthaste(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_posthaste"));
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn run(arguments: &[&str]) -> Output {
    posthaste(arguments).output().expect("the binary runs")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("the output is UTF-8")
}

/// The cells of a subscription's row in the summary: delivered, `of`, all, retries, dead, still open.
fn row<'t>(summary: &'t str, subscription: &str) -> Vec<&'t str> {
    let mut rows = summary.lines().filter(|line| line.trim_start().starts_with(subscription));
    let row = rows.next_back().unwrap_or_else(|| panic!("no row of {subscription} in:\n{summary}"));
    row.split_whitespace().skip(1).collect()
}

fn summary(stdout: &str) -> &str {
    let begin = stdout.find("Stopped cleanly").unwrap_or_else(|| panic!("no summary in:\n{stdout}"));
    &stdout[begin..]
}

fn database(stdout: &str) -> PathBuf {
    let mut lines = stdout.lines().filter_map(|line| line.split_once("database "));
    PathBuf::from(lines.next().expect("the database is named first").1)
}

#[test]
fn the_demonstration_delivers_everything_but_the_poison_and_leaves_nothing_behind() {
    let output = run(&["dev", "--for", "6"]);
    let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{stdout}\n{stderr}");
    assert_eq!(stderr, "");
    assert!(!stdout.contains('\x1b'), "no escape codes in a pipe");
    let summary = summary(&stdout);
    let orders = row(summary, "shipping")[2];
    assert!(orders.parse::<u32>().expect("a count") >= 13, "{summary}");
    assert_eq!(row(summary, "shipping"), [orders, "of", orders, "0", "0", "0"]);
    let billing = row(summary, "billing");
    assert_eq!([billing[0], billing[2], billing[4], billing[5]], [orders, orders, "0", "0"]);
    assert_ne!(billing[3], "0", "billing was retried: {summary}");
    assert_eq!(row(summary, "analytics")[3..], ["2", "1", "0"], "{summary}");
    assert!(summary.contains(&format!("{orders} orders written, {orders} events enqueued")), "{summary}");
    assert!(summary.contains("Dead letter: order 13 in analytics"), "{summary}");
    assert!(stdout.contains("order 13 is poison for analytics: dead after 3 attempts"), "{stdout}");
    let file = database(&stdout);
    assert!(!file.exists() && !file.parent().is_some_and(Path::exists), "{file:?} was removed");
}

#[test]
fn for_scripts_every_moment_is_a_line_of_json_and_the_summary_is_the_last() {
    let output = run(&["dev", "--for", "6", "--json"]);
    assert!(output.status.success() && output.stderr.is_empty(), "{}", text(&output.stderr));
    let stdout = text(&output.stdout);
    let moments: Vec<Value> = stdout.lines().map(|line| serde_json::from_str(line).expect(line)).collect();
    let named = |name: &str| moments.iter().filter(|one| one["moment"] == name).collect::<Vec<_>>();
    assert!(moments.iter().all(|one| one["seconds"].is_number()), "{stdout}");
    assert_eq!((named("started").len(), &moments[0]["moment"]), (1, &"started".into()), "{stdout}");
    assert!(named("counts").len() > 2 && !named("failed").is_empty(), "{stdout}");
    assert_eq!(named("dead").len(), 1, "{stdout}");
    assert_eq!(
        (&named("dead")[0]["subscription"], &named("dead")[0]["order"]),
        (&"analytics".into(), &"13".into())
    );
    let summary = moments.last().expect("a summary");
    assert_eq!((named("summary").len(), &summary["moment"]), (1, &"summary".into()), "{stdout}");
    let (orders, shipping) = (&summary["orders"], &summary["subscriptions"]["shipping"]);
    assert_eq!([&shipping["delivered"], &shipping["events"], &summary["events"]], [orders; 3], "{summary}");
    assert_eq!(summary["subscriptions"]["analytics"]["dead"], 1, "{summary}");
    assert_eq!(summary["dead_letters"][0]["order"], "13", "{summary}");
    assert_eq!(summary["database_kept"], false, "{summary}");
}

#[cfg(unix)]
#[test]
fn a_signal_stops_it_cleanly_with_a_summary() {
    for signal in [rustix::process::Signal::INT, rustix::process::Signal::TERM] {
        let mut child = posthaste(&["dev", "--rate", "20"]).spawn().expect("the binary runs");
        let (mut reader, mut stdout) = until_first_retry(&mut child);
        send(&child, signal);
        reader.read_to_string(&mut stdout).expect("the output is UTF-8");
        assert!(child.wait().expect("it ends").success(), "{stdout}");
        assert_eq!(row(summary(&stdout), "shipping")[5], "0", "nothing is open: {stdout}");
        assert!(!database(&stdout).exists());
    }
}

#[cfg(unix)]
#[test]
fn a_second_signal_ends_it_at_once_and_removes_the_file_all_the_same() {
    let mut child = posthaste(&["dev", "--rate", "20"]).spawn().expect("the binary runs");
    let (mut reader, mut stdout) = until_first_retry(&mut child);
    // Two signals of one kind could be merged into one while the first is pending.
    send(&child, rustix::process::Signal::INT);
    send(&child, rustix::process::Signal::TERM);
    reader.read_to_string(&mut stdout).expect("the output is UTF-8");
    assert_eq!(child.wait().expect("it ends").code(), Some(130), "{stdout}");
    assert!(!stdout.contains("Stopped cleanly"), "{stdout}");
    assert!(!database(&stdout).exists());
}

#[cfg(unix)]
fn send(child: &Child, signal: rustix::process::Signal) {
    let pid = rustix::process::Pid::from_child(child);
    rustix::process::kill_process(pid, signal).expect("the process is there");
}

/// Reads until the demonstration is under way; what was read is kept.
#[cfg(unix)]
fn until_first_retry(child: &mut Child) -> (BufReader<std::process::ChildStdout>, String) {
    let mut reader = BufReader::new(child.stdout.take().expect("a pipe"));
    let mut read = String::new();
    while !read.contains("trying again") {
        assert_ne!(reader.read_line(&mut read).expect("the output is UTF-8"), 0, "it ended early: {read}");
    }
    (reader, read)
}

#[test]
fn a_kept_file_stays_and_the_next_run_goes_on_with_it() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("orders.db");
    let arguments = ["dev", "--for", "1", "--rate", "20", "--database", path.to_str().expect("UTF-8")];
    let first = text(&run(&arguments).stdout);
    assert!(path.exists());
    let written = row(summary(&first), "shipping")[2];
    let second = text(&run(&arguments).stdout);
    assert!(second.contains(&format!("{written} of the orders were in the file before")), "{second}");
    assert_eq!(row(summary(&second), "shipping")[5], "0", "{second}");
}

#[test]
fn two_processes_share_one_file_and_no_busy_database_surfaces() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("shared.db");
    let file = file.to_str().expect("a path");
    let arguments = ["dev", "--database", file, "--for", "4", "--rate", "40"];
    let both = [posthaste(&arguments).spawn(), posthaste(&arguments).spawn()];
    for child in both {
        let output = child.and_then(Child::wait_with_output).expect("the binary runs");
        assert!(output.status.success(), "{} {}", text(&output.stdout), text(&output.stderr));
        assert_eq!(text(&output.stderr), "");
    }
    // Whatever one of them left when it stopped first, the next run finishes.
    let output = run(&["dev", "--database", file, "--for", "2", "--rate", "1"]);
    let stdout = text(&output.stdout);
    let shipping = row(summary(&stdout), "shipping");
    assert_eq!([shipping[0], shipping[5]], [shipping[2], "0"], "{stdout}");
    assert!(shipping[2].parse::<u32>().expect("a count") > 20, "they wrote: {stdout}");
}

#[test]
fn an_unusable_path_is_refused_in_one_sentence() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let not_a_database = folder.path().join("notes.txt");
    std::fs::write(&not_a_database, "dear diary, today I was no database").expect("a file");
    let cases = [
        (folder.path().to_owned(), "this is a folder"),
        (folder.path().join("missing/orders.db"), "there is no folder"),
        (not_a_database.clone(), "this file is not a SQLite database"),
        (PathBuf::from("/dev/null/x.db"), "there is no folder"),
    ];
    for (path, expected) in cases {
        let output = run(&["dev", "--for", "1", "--database", path.to_str().expect("UTF-8")]);
        let stderr = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{stderr}");
        assert!(stderr.contains(expected) && stderr.lines().count() == 1, "{stderr}");
    }
    assert!(std::fs::read_to_string(not_a_database).expect("still there").starts_with("dear diary"));
}

#[test]
fn a_foreign_table_named_orders_is_left_alone() {
    let (folder, path) = (tempfile::tempdir().expect("a temporary folder"), "shop.db");
    let path = folder.path().join(path);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let pool = sqlx::SqlitePool::connect_with(posthaste::sqlite_options(&path)).await.expect("open");
        sqlx::query("create table orders (id integer primary key)").execute(&pool).await.expect("create");
        pool.close().await;
    });
    let output = run(&["dev", "--for", "1", "--database", path.to_str().expect("UTF-8")]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("has a table `orders` that is not the sample's"));
}

#[test]
fn wrong_usage_is_answered_with_exit_code_2() {
    let cases = [
        (vec!["dev", "--rate", "0"], "give a whole number from 1 to 1000"),
        (vec!["dev", "--for", "soon"], "give a whole number from 1 to 86400"),
        (vec!["dev", "--frobnicate"], "unexpected argument"),
        (vec!["frobnicate"], "unrecognized subcommand"),
        (vec![], "Usage:"),
    ];
    for (arguments, expected) in cases {
        let output = run(&arguments);
        let stderr = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {stderr}");
        assert!(stderr.contains(expected), "{arguments:?}: {stderr}");
    }
}

#[test]
fn help_shows_an_example_of_every_command() {
    for arguments in [vec!["--help"], vec!["dev", "--help"]] {
        let output = run(&arguments);
        assert!(output.status.success());
        let help = text(&output.stdout);
        assert!(help.contains("Example") && help.contains("  posthaste dev "), "{help}");
    }
}

#[test]
fn a_reader_that_goes_away_is_no_disaster() {
    let mut child = posthaste(&["dev", "--for", "30"]).spawn().expect("the binary runs");
    drop(child.stdout.take());
    let output = child.wait_with_output().expect("it ends by itself");
    assert_eq!((output.status.code(), text(&output.stderr)), (Some(0), String::new()));
}
