//! `stdout` and `file`: one JSON object per line, for people and tests.
//!
//! | what happens | outcome |
//! |---|---|
//! | the lines are written (and, for a file, on disk) | delivered |
//! | the disk is full, the file cannot be opened, the pipe is closed | unavailable |

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use posthaste::{Outcome, Page, Sink};

use crate::endpoint::{Endpoint, Route};
use crate::section::Section;

mod line;

use line::write_line;

/// Where lines go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LinesSettings {
    /// Standard output.
    Stdout,
    /// The end of this file, which is created if need be.
    File(PathBuf),
}

impl LinesSettings {
    /// `type = "file"` with its `path`.
    pub fn validate_file(section: &Section<'_>) -> Option<Self> {
        section.required("path", "\"events.jsonl\"")?;
        let path = section.file("path")?;
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        match folder.filter(|folder| !folder.is_dir()) {
            Some(folder) => {
                section.problem("path", format!("there is no folder {}; create it first", folder.display()))
            }
            None if path.is_dir() => section.problem("path", "this is a folder; give the path of a file"),
            None => return Some(Self::File(path)),
        }
        None
    }
}

/// Writes events as lines.
#[derive(Debug)]
pub struct LinesSink {
    route: Route,
    place: Arc<LinesSettings>,
}

impl LinesSink {
    /// Nothing is opened yet.
    pub fn new(settings: LinesSettings, route: Route) -> Self {
        Self { route, place: Arc::new(settings) }
    }

    async fn write(&self, lines: Vec<u8>) -> io::Result<()> {
        let place = self.place.clone();
        let writing = tokio::task::spawn_blocking(move || match &*place {
            LinesSettings::Stdout => write_out(&lines),
            LinesSettings::File(path) => append(path, &lines),
        });
        writing.await.map_err(io::Error::other)?
    }
}

#[async_trait]
impl Sink for LinesSink {
    /// All lines of a page in one write: the page is delivered, or nothing of it.
    async fn deliver(&self, page: &mut Page) {
        let mut lines = Vec::new();
        for (index, event) in page.events().iter().enumerate() {
            write_line(&mut lines, &self.route, event, page.attempt(index));
        }
        let outcome = match self.write(lines).await {
            Ok(()) => Outcome::Delivered,
            Err(error) => Outcome::unavailable(format!("{}: {error}", self.describe())),
        };
        page.mark_rest(&outcome);
    }

    async fn check(&self) -> Result<(), String> {
        self.write(Vec::new()).await.map_err(|error| format!("{}: {error}", self.describe()))
    }
}

#[async_trait]
impl Endpoint for LinesSink {
    fn describe(&self) -> String {
        match &*self.place {
            LinesSettings::Stdout => "stdout".to_owned(),
            LinesSettings::File(path) => format!("file {}", path.display()),
        }
    }
}

fn write_out(lines: &[u8]) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(lines)?;
    out.flush()
}

/// Locked, because several relays may write to one file, and cut back on failure: a reader never meets half a line
/// followed by a whole one.
fn append(path: &Path, lines: &[u8]) -> io::Result<()> {
    let mut file = OpenOptions::new().append(true).create(true).open(path)?;
    file.lock()?;
    let before = file.metadata()?.len();
    let written = file.write_all(lines).and_then(|()| file.sync_data());
    if written.is_err() {
        cut_back(&file, before);
    }
    written
}

fn cut_back(file: &File, length: u64) {
    if let Err(error) = file.set_len(length) {
        tracing::warn!(%error, "could not remove lines that were written only in part");
    }
}
