//! The built binary in a folder of its own, with an environment of its own.

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Long enough for any machine; a test that meets it has failed.
pub(crate) const PATIENCE: Duration = Duration::from_secs(240);

/// A folder that goes away with its test.
pub(crate) struct Folder {
    folder: tempfile::TempDir,
}

impl Folder {
    pub(crate) fn new() -> Self {
        Self { folder: tempfile::tempdir().expect("a temporary folder") }
    }

    pub(crate) fn with(config: &str) -> Self {
        let folder = Self::new();
        folder.write("posthaste.toml", config);
        folder
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, content: impl AsRef<[u8]>) {
        std::fs::write(self.path(name), content).expect("a file is written");
    }

    pub(crate) fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap_or_default()
    }

    /// The command, with nothing of this process' environment.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_posthaste"));
        command.args(arguments).current_dir(self.folder.path()).env_clear().stdin(Stdio::null());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Ended {
        Ended::of(self.command(arguments).output().expect("the binary runs"))
    }

    pub(crate) fn relay(&self, arguments: &[&str]) -> Relay {
        Relay::start(self.command(&[&["relay"], arguments].concat()))
    }
}

/// What a command left behind.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Ended {
    pub(crate) fn of(output: Output) -> Self {
        let text = |bytes| String::from_utf8(bytes).expect("the output is UTF-8");
        Self { code: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) }
    }

    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|_| panic!("not JSON: {self:?}"))
    }
}

#[derive(Default)]
struct Heard {
    lines: Mutex<Vec<String>>,
    news: Condvar,
}

/// A running relay, whose words on stderr are collected.
pub(crate) struct Relay {
    child: Child,
    heard: Arc<Heard>,
    listening: Option<JoinHandle<()>>,
}

impl Relay {
    pub(crate) fn start(mut command: Command) -> Self {
        let mut child = command.spawn().expect("the binary runs");
        let (heard, stderr) = (Arc::new(Heard::default()), child.stderr.take().expect("a pipe"));
        let notes = heard.clone();
        let listening = std::thread::spawn(move || {
            for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                notes.lines.lock().expect("no panic").push(line);
                notes.news.notify_all();
            }
        });
        Self { child, heard, listening: Some(listening) }
    }

    /// All it said so far.
    pub(crate) fn words(&self) -> String {
        self.heard.lines.lock().expect("no panic").join("\n")
    }

    /// Waits until it has said this so many times; returns the last such line.
    pub(crate) fn says_times(&self, words: &str, times: usize) -> String {
        let deadline = Instant::now() + PATIENCE;
        let mut lines = self.heard.lines.lock().expect("no panic");
        loop {
            let found: Vec<&String> = lines.iter().filter(|line| line.contains(words)).collect();
            if found.len() >= times {
                return found[times - 1].clone();
            }
            let left = deadline.saturating_duration_since(Instant::now());
            assert!(!left.is_zero(), "`{words}` was not said {times} times:\n{}", lines.join("\n"));
            lines = self.heard.news.wait_timeout(lines, left).expect("no panic").0;
        }
    }

    pub(crate) fn says(&self, words: &str) -> String {
        self.says_times(words, 1)
    }

    /// The address behind `http://` in the line about health.
    pub(crate) fn address(&self) -> String {
        let line = self.says("/readyz");
        let (_, rest) = line.split_once("http://").expect("an address");
        rest.split('/').next().expect("an address").to_owned()
    }

    pub(crate) fn send(&self, signal: rustix::process::Signal) {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, signal).expect("the process is there");
    }

    pub(crate) fn ends(&mut self) -> ExitStatus {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = self.child.try_wait().expect("it can be waited for") {
                // Its last words may still be on their way.
                self.listening.take().map(JoinHandle::join);
                return status;
            }
            assert!(Instant::now() < deadline, "it did not end:\n{}", self.words());
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// SIGTERM, and the end.
    pub(crate) fn stop(mut self) -> (Option<i32>, String) {
        self.send(rustix::process::Signal::TERM);
        let code = self.ends().code();
        (code, self.words())
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// Waits until something is so.
pub(crate) async fn until<T>(what: &str, mut look: impl AsyncFnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = look().await {
            return found;
        }
        assert!(Instant::now() < deadline, "{what} did not come true");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// The lines of a file that a `file` sink wrote, read under its lock: in the middle of a write a line is not whole.
pub(crate) fn lines(path: &Path) -> Vec<serde_json::Value> {
    let mut text = String::new();
    if let Ok(mut file) = std::fs::File::open(path) {
        file.lock_shared().expect("locked");
        file.read_to_string(&mut text).expect("text");
    }
    text.lines().map(|line| serde_json::from_str(line).expect("a whole line")).collect()
}
