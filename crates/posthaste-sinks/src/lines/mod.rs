//! `stdout` and `file`: one JSON object per line, for people and tests.
//!
//! | what happens | outcome |
//! |---|---|
//! | the lines are written (and, for a file, on disk) | delivered |
//! | the disk is full, the file cannot be opened, the pipe is closed | unavailable |
//! | nobody reads the pipe, another program holds the file's lock, the disk hangs: 5 s at most | unavailable |
//!
//! A write that takes longer may still end well. What it wrote is not written again when it comes again.

use std::collections::{HashMap, HashSet};
use std::io;
use std::time::Duration;

use async_trait::async_trait;
use posthaste::{EventId, Outcome, Page, Sink};
use tokio::sync::{Mutex, MutexGuard};
use tokio::time::{Instant, timeout_at};

use crate::endpoint::{Endpoint, Route};
use crate::section::Section;

mod line;
mod place;

use line::write_line;
use place::{Place, Stuck};

pub use place::LinesSettings;

/// How long a write may take before its events are said to wait.
const PATIENCE: Duration = Duration::from_secs(5);

/// How many late lines are remembered, and for how long: far longer than the engine takes to hand over again what waits, and
/// what is replayed some day is to be written again.
const REMEMBERED: usize = 10_000;
const REMEMBERED_FOR: Duration = Duration::from_secs(10 * 60);

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
    settings: LinesSettings,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    place: Place,
    under_way: HashSet<Sending>,
    /// Written by a write that was given up, and not yet come again.
    written: HashMap<Sending, Instant>,
}

type Sending = (EventId, u32);

/// Why nothing was written, or why nobody knows.
enum Trouble {
    Stuck,
    Failed(io::Error),
}

impl From<Stuck> for Trouble {
    fn from(_: Stuck) -> Self {
        Self::Stuck
    }
}

impl LinesSink {
    /// Nothing is opened yet.
    pub fn new(settings: LinesSettings, route: Route) -> Self {
        let place = Place::new(settings.clone());
        let state = State { place, under_way: HashSet::new(), written: HashMap::new() };
        Self { route, settings, state: Mutex::new(state) }
    }

    fn until(&self) -> Instant {
        Instant::now() + self.route.patience(PATIENCE)
    }

    async fn write(&self, page: &mut Page) -> Result<(), Trouble> {
        let until = self.until();
        let mut state = self.ready(until).await?;
        let rest = state.leave_out_written(page);
        if rest.is_empty() {
            return Ok(());
        }
        let mut lines = Vec::new();
        for index in &rest {
            write_line(&mut lines, &self.route, &page.events()[*index], page.attempt(*index));
        }
        let sendings = rest.into_iter().map(|index| sending(page, index));
        state.write(lines, sendings.collect(), until).await
    }

    /// When nothing is under way any more.
    async fn ready(&self, until: Instant) -> Result<MutexGuard<'_, State>, Stuck> {
        let mut state = timeout_at(until, self.state.lock()).await.map_err(|_| Stuck)?;
        let ended = state.place.end(until).await?;
        let sendings = std::mem::take(&mut state.under_way);
        if let Some(Ok(())) = ended {
            state.remember(sendings);
        }
        Ok(state)
    }

    fn sentence(&self, trouble: Trouble) -> String {
        let (place, patience) = (self.describe(), self.route.patience(PATIENCE));
        match (trouble, &self.settings) {
            (Trouble::Failed(error), _) => format!("{place}: {error}"),
            (Trouble::Stuck, LinesSettings::Stdout) => format!(
                "{place}: nobody reads standard output, a write waits there for more than {patience:?}; read it, or end \
                 the program that should"
            ),
            (Trouble::Stuck, LinesSettings::File(_)) => {
                format!("{place}: a write has not ended within {patience:?}; look whether its disk answers")
            }
        }
    }
}

impl State {
    async fn write(
        &mut self,
        lines: Vec<u8>,
        sendings: HashSet<Sending>,
        until: Instant,
    ) -> Result<(), Trouble> {
        self.place.begin(lines, until).await?;
        self.under_way = sendings;
        let ended = self.place.end(until).await?;
        self.under_way.clear();
        ended.transpose().map(drop).map_err(Trouble::Failed)
    }

    /// Until they come again. The memory has an end: rather a line twice than a memory without bounds.
    fn remember(&mut self, sendings: HashSet<Sending>) {
        let now = Instant::now();
        self.forget_old(now);
        let room = REMEMBERED.saturating_sub(self.written.len());
        self.written.extend(sendings.into_iter().take(room).map(|sending| (sending, now)));
    }

    fn forget_old(&mut self, now: Instant) {
        self.written.retain(|_, since| now.duration_since(*since) < REMEMBERED_FOR);
    }

    /// Marks what a late write has written, and returns the places of the rest.
    fn leave_out_written(&mut self, page: &mut Page) -> Vec<usize> {
        self.forget_old(Instant::now());
        let all = 0..page.events().len();
        let (written, rest): (Vec<usize>, Vec<usize>) =
            all.partition(|index| self.written.remove(&sending(page, *index)).is_some());
        for index in written {
            page.mark(index, Outcome::Delivered);
        }
        rest
    }
}

fn sending(page: &Page, index: usize) -> Sending {
    (page.events()[index].id, page.attempt(index))
}

#[async_trait]
impl Sink for LinesSink {
    /// All lines of a page in one write: the page is delivered, or nothing of it.
    async fn deliver(&self, page: &mut Page) {
        let outcome = match self.write(page).await {
            Ok(()) => Outcome::Delivered,
            Err(trouble) => Outcome::unavailable(self.sentence(trouble)),
        };
        page.mark_rest(&outcome);
    }

    async fn check(&self) -> Result<(), String> {
        let until = self.until();
        let checking = async {
            let mut state = self.ready(until).await?;
            state.write(Vec::new(), HashSet::new(), until).await
        };
        checking.await.map_err(|trouble: Trouble| self.sentence(trouble))
    }
}

#[async_trait]
impl Endpoint for LinesSink {
    fn describe(&self) -> String {
        match &self.settings {
            LinesSettings::Stdout => "stdout".to_owned(),
            LinesSettings::File(path) => format!("file {}", path.display()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use chrono::DateTime;
    use posthaste::{Event, NewEvent};

    use super::*;

    fn event() -> Arc<Event> {
        Arc::new(NewEvent::bytes("t", vec![]).stored(1, DateTime::UNIX_EPOCH))
    }

    fn state() -> State {
        let place = Place::new(LinesSettings::Stdout);
        State { place, under_way: HashSet::new(), written: HashMap::new() }
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_written_late_is_left_out_when_it_comes_again() {
        let (a, b, c) = (event(), event(), event());
        let mut state = state();
        state.remember(HashSet::from([(a.id, 1), (b.id, 1)]));
        let mut page = Page::new(vec![a.clone(), c.clone()]);
        assert_eq!(state.leave_out_written(&mut page), [1]);
        assert_eq!((page.outcome(0), page.outcome(1)), (Some(&Outcome::Delivered), None));
        assert_eq!(state.leave_out_written(&mut Page::new(vec![a])), [0], "a replay is written");
        assert_eq!(state.leave_out_written(&mut Page::new(vec![c])), [0], "others come in between");
        let mut second = Page::for_attempts([(b.clone(), 2, 0), (b, 1, 0)]);
        assert_eq!(state.leave_out_written(&mut second), [0], "another attempt is another line");
    }

    #[tokio::test(start_paused = true)]
    async fn the_memory_of_late_lines_ends_with_time_and_number() {
        let (mut state, late) = (state(), event());
        state.remember(HashSet::from([(late.id, 1)]));
        tokio::time::advance(REMEMBERED_FOR).await;
        assert_eq!(state.leave_out_written(&mut Page::new(vec![late])), [0]);
        assert_eq!(state.written.len(), 0);
        let (id, many) = (event().id, u32::try_from(REMEMBERED).expect("small") + 1);
        state.remember((0..many).map(|attempt| (id, attempt)).collect());
        assert_eq!(state.written.len(), REMEMBERED);
    }
}
