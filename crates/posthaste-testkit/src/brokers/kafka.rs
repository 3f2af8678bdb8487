//! Kafka by librdkafka's mock cluster: the example `kafka_mock` of posthaste-sinks, as a process of its own.

use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Mutex, PoisonError};

/// A mock cluster of three brokers. Dropping it ends it; it also ends with this process.
#[derive(Debug)]
pub struct KafkaMock {
    brokers: String,
    child: Child,
    talk: Mutex<(ChildStdin, BufReader<ChildStdout>)>,
}

impl KafkaMock {
    /// Starts it; the error says how to get it.
    pub fn start() -> Result<Self, String> {
        let program = program()?;
        let mut child = Command::new(&program)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|error| format!("{}: {error}", program.display()))?;
        let (input, output) =
            child.stdin.take().zip(child.stdout.take()).ok_or("it has no input and output")?;
        let mut output = BufReader::new(output);
        let mut brokers = String::new();
        output.read_line(&mut brokers).map_err(|error| error.to_string())?;
        Ok(Self { brokers: brokers.trim().to_owned(), child, talk: Mutex::new((input, output)) })
    }

    /// Where it is, as `host:port,host:port,host:port`.
    pub fn brokers(&self) -> &str {
        &self.brokers
    }

    /// Gives it a command and waits until it has obeyed. The example's source lists the commands.
    ///
    /// # Panics
    /// If it does not obey.
    pub fn tell(&self, command: &str) {
        let mut talk = self.talk.lock().unwrap_or_else(PoisonError::into_inner);
        let (input, output) = &mut *talk;
        let mut answer = String::new();
        let told = writeln!(input, "{command}").and_then(|()| input.flush());
        told.and_then(|()| output.read_line(&mut answer).map(drop)).expect("the mock cluster listens");
        assert_eq!(answer.trim(), "ok", "{command}");
    }
}

impl Drop for KafkaMock {
    fn drop(&mut self) {
        // It may have ended by itself, which is what we want.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// Cargo builds examples into a folder beside the programs, one above that of the tests.
fn program() -> Result<PathBuf, String> {
    let this = std::env::current_exe().map_err(|error| error.to_string())?;
    let places = this.ancestors().skip(1).take(2).map(|folder| folder.join("examples/kafka_mock"));
    places.clone().find(|program| program.is_file()).ok_or_else(|| {
        format!(
            "there is no {}; build it with: cargo build -p posthaste-sinks --features kafka --example kafka_mock",
            places.map(|place| place.display().to_string()).collect::<Vec<_>>().join(" and no ")
        )
    })
}
