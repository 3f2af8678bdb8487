//! Writes that do not end: a pipe that nobody reads, a lock that somebody holds.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::process::{Command, Stdio};
use std::time::Duration;

use chrono::DateTime;
use posthaste::{Event, NewEvent, Outcome, Page};
use tokio::time::timeout;

use super::*;

const EVENTS: usize = 300;

/// Far more than a pipe holds.
fn events() -> Vec<Arc<Event>> {
    let event = |seq| NewEvent::bytes("orders", vec![b'x'; 1000]).stored(seq, DateTime::UNIX_EPOCH);
    (0..EVENTS as i64).map(|seq| Arc::new(event(seq))).collect()
}

/// With a page's time of ten seconds, so that two seconds are long enough to say that a write is stuck.
fn sink(settings: LinesSettings, subscription: &str) -> LinesSink {
    let mut route = Route::new(subscription);
    route.page_time = Duration::from_secs(10);
    LinesSink::new(settings, route)
}

async fn deliver(sink: &LinesSink, events: &[Arc<Event>]) -> Outcome {
    let mut page = Page::new(events.to_vec());
    sink.deliver(&mut page).await;
    let first = page.outcome(0).expect("a mark").clone();
    assert!((0..events.len()).all(|index| page.outcome(index) == Some(&first)), "all or nothing");
    first
}

#[track_caller]
fn assert_unavailable(outcome: &Outcome, words: &str) {
    match outcome {
        Outcome::Unavailable { reason } => assert!(reason.contains(words), "{reason}"),
        other => panic!("{other:?}"),
    }
}

async fn until_delivered(sink: &LinesSink, events: &[Arc<Event>]) {
    let delivering = async { while deliver(sink, events).await != Outcome::Delivered {} };
    timeout(Duration::from_secs(120), delivering).await.expect("delivered");
}

fn writing_threads() -> usize {
    let tasks = fs::read_dir("/proc/self/task").expect("the threads of this process").flatten();
    let names = tasks.filter_map(|task| fs::read_to_string(task.path().join("comm")).ok());
    names.filter(|name| name.trim() == "posthaste-lines").count()
}

/// Which half of the test this process is.
const WRITER: &str = "POSTHASTE_TEST_LINES_WRITER";

/// The process whose standard output is a pipe. It says `stuck` when it is.
async fn writing_to_a_pipe() {
    let (first, second) = (sink(LinesSettings::Stdout, "first"), sink(LinesSettings::Stdout, "second"));
    let (ones, others) = (events(), events());
    for _ in 0..3 {
        assert_unavailable(&deliver(&first, &ones).await, "stdout: nobody reads standard output");
        assert_unavailable(&deliver(&second, &others).await, "stdout: nobody reads standard output");
        assert_eq!(writing_threads(), 1, "one write at a time, whoever it is that writes");
    }
    assert!(first.check().await.expect_err("stuck").contains("nobody reads standard output"));
    eprintln!("stuck");
    until_delivered(&first, &ones).await;
    until_delivered(&second, &others).await;
    assert_eq!(first.check().await, Ok(()));
}

/// Runs itself once more, as the process that writes.
#[tokio::test]
async fn nobody_reads_standard_output_and_then_somebody_does() {
    if std::env::var_os(WRITER).is_some() {
        return writing_to_a_pipe().await;
    }
    let mut child = Command::new(std::env::current_exe().expect("this program"))
        .args(["stuck::nobody_reads_standard_output_and_then_somebody_does", "--exact", "--nocapture"])
        .env(WRITER, "1")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("itself");
    let mut said = BufReader::new(child.stderr.take().expect("its errors")).lines();
    let stuck = said.by_ref().map(|line| line.expect("text")).find(|line| line == "stuck");
    let mut written = String::new();
    child.stdout.take().expect("its output").read_to_string(&mut written).expect("text");
    let rest: Vec<String> = said.map_while(Result::ok).collect();
    assert!(child.wait().expect("it ends").success(), "{written:.2000}\n{rest:?}");
    assert!(stuck.is_some());

    // What the test harness says stands there too, even before the first line.
    let lines = written.lines().filter_map(|line| Some(&line[line.find('{')?..]));
    let mut times: BTreeMap<(String, String), usize> = BTreeMap::new();
    for line in lines {
        let line: Value = serde_json::from_str(line).expect("whole lines of JSON");
        let text = |name: &str| line[name].as_str().expect("text").to_owned();
        *times.entry((text("subscription"), text("id"))).or_default() += 1;
    }
    assert_eq!(times.len(), 2 * EVENTS, "every event of both subscriptions");
    assert!(times.values().all(|times| *times == 1), "also what was written late came once");
}

#[tokio::test]
async fn a_lock_that_another_holds_is_waited_for() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("events.jsonl");
    let sink = LinesSink::new(LinesSettings::File(path.clone()), Route::new("s"));
    let holder = File::create(&path).expect("a file");
    holder.lock().expect("locked");
    let events = events();
    for _ in 0..3 {
        let sentence = format!("file {}: another program holds its lock", path.display());
        assert_unavailable(&deliver(&sink, &events).await, &sentence);
    }
    assert!(sink.check().await.expect_err("locked").contains("another program holds its lock"));
    assert_eq!(fs::read(&path).expect("the file"), b"", "nothing is written without the lock");
    holder.unlock().expect("unlocked");
    until_delivered(&sink, &events).await;
    let text = fs::read_to_string(&path).expect("the file");
    assert_eq!(text.lines().map(received).count(), EVENTS);
}
