//! The sink suite on a file.

use std::fs::{self, OpenOptions};
use std::io::{ErrorKind, Write};
use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use posthaste::Sink;
use posthaste_sinks::lines::{LinesSettings, LinesSink};
use posthaste_sinks::{Envelope, Form, Route};
use posthaste_testkit::sink_suite::{Received, SinkBench};
use serde_json::Value;
use tempfile::TempDir;

#[path = "lines/stuck.rs"]
mod stuck;

struct Lines {
    folder: TempDir,
}

impl Lines {
    fn path(&self) -> PathBuf {
        self.folder.path().join("events.jsonl")
    }

    fn aside(&self, number: usize) -> PathBuf {
        self.folder.path().join(format!("aside-{number}.jsonl"))
    }

    fn open(&self, envelope: Envelope) -> Arc<dyn Sink> {
        Arc::new(LinesSink::new(LinesSettings::File(self.path()), Route::new("s").envelope(envelope)))
    }
}

#[async_trait]
impl SinkBench for Lines {
    const NAME: &'static str = "file";
    const ATTRIBUTES: Option<&'static str> = None;

    async fn start() -> Result<Self, String> {
        Ok(Self { folder: tempfile::tempdir().map_err(|error| error.to_string())? })
    }

    fn server(&self) -> String {
        "file system".to_owned()
    }

    fn sink(&self) -> Arc<dyn Sink> {
        self.open(Envelope::default())
    }

    fn structured(&self) -> Arc<dyn Sink> {
        self.open(Envelope::new(Form::Structured))
    }

    async fn received(&self) -> Vec<Received> {
        let text = fs::read_to_string(self.path()).unwrap_or_default();
        text.lines().map(received).collect()
    }

    /// A folder in the file's place: nobody can write there, not even root. The sink may be quicker and create the file
    /// anew; then that one goes aside too.
    async fn take_away(&self) {
        for number in 0.. {
            if self.path().exists() {
                fs::rename(self.path(), self.aside(number)).expect("move it aside");
            }
            match fs::create_dir(self.path()) {
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                created => return created.expect("a folder instead"),
            }
        }
    }

    async fn bring_back(&self) {
        fs::remove_dir(self.path()).expect("the folder goes");
        for number in 1.. {
            let Ok(more) = fs::read(self.aside(number)) else { break };
            let first = OpenOptions::new().append(true).create(true).open(self.aside(0));
            first.expect("the first one").write_all(&more).expect("append");
            fs::remove_file(self.aside(number)).expect("it goes");
        }
        if self.aside(0).exists() {
            fs::rename(self.aside(0), self.path()).expect("move it back");
        }
    }

    fn too_large(&self) -> Option<usize> {
        None
    }

    fn with_wrong_credentials(&self) -> Option<Arc<dyn Sink>> {
        None
    }

    fn to_unknown_destination(&self) -> Option<Arc<dyn Sink>> {
        let nowhere = LinesSettings::File(self.folder.path().join("no/such/folder/events.jsonl"));
        Some(Arc::new(LinesSink::new(nowhere, Route::new("s"))))
    }
}

fn received(line: &str) -> Received {
    let object: Value = serde_json::from_str(line).expect("one JSON object per line");
    let text = |name: &str| object[name].as_str().map(str::to_owned);
    let body = match object.get("payload") {
        None => line.as_bytes().to_vec(),
        Some(Value::String(coded)) if object.get("payload_encoding").is_some() => {
            BASE64_STANDARD.decode(coded).expect("base64")
        }
        Some(_) => line.as_bytes()[line.find("\"payload\":").expect("there") + 10..line.len() - 1].to_vec(),
    };
    let headers = object["headers"].as_object().into_iter().flatten();
    let headers =
        headers.map(|(name, value)| (name.clone(), value.as_str().expect("text").to_owned())).collect();
    Received { id: text("id").expect("an id"), key: text("key"), body, headers }
}

posthaste_testkit::sink_suite!(Lines);
