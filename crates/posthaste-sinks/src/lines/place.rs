//! One write at a time to a place, each on a thread of its own.
//!
//! A write to a pipe that nobody reads never ends, and nothing can end it. So nobody waits for it for ever, and while it
//! is under way no second one is begun: that one would only be stuck behind it, with one more thread. The threads are not
//! the runtime's, which would wait for them when it ends.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};
use std::thread;
use std::time::{Duration, Instant};

use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use tokio::time::timeout_at;

/// There is one standard output in a process, whoever writes there.
static STDOUT: LazyLock<Arc<Semaphore>> = LazyLock::new(|| Arc::new(Semaphore::new(1)));

/// What the threads are called, for those who look at a process that seems to hang.
const THREAD: &str = "posthaste-lines";

/// How often a lock is tried.
const TRYING: Duration = Duration::from_millis(20);

/// Where lines go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LinesSettings {
    /// Standard output.
    Stdout,
    /// The end of this file, which is created if need be.
    File(PathBuf),
}

/// A place, and the write that is under way there.
#[derive(Debug)]
pub(super) struct Place {
    settings: LinesSettings,
    turn: Arc<Semaphore>,
    under_way: Option<oneshot::Receiver<io::Result<()>>>,
}

/// The time was over before the write was.
#[derive(Debug)]
pub(super) struct Stuck;

impl Place {
    pub(super) fn new(settings: LinesSettings) -> Self {
        let turn = match &settings {
            LinesSettings::Stdout => STDOUT.clone(),
            LinesSettings::File(_) => Arc::new(Semaphore::new(1)),
        };
        Self { settings, turn, under_way: None }
    }

    /// Begins a write, when there is none under way any more.
    pub(super) async fn begin(&mut self, lines: Vec<u8>, until: tokio::time::Instant) -> Result<(), Stuck> {
        let turn = timeout_at(until, self.turn.clone().acquire_owned()).await;
        let turn = turn.map_err(|_| Stuck)?.map_err(|_| Stuck)?;
        // Half of the time for a lock, so that its sentence comes in time.
        let lock_until = Instant::now() + until.duration_since(tokio::time::Instant::now()) / 2;
        self.under_way = Some(start(self.settings.clone(), lines, lock_until, turn));
        Ok(())
    }

    /// What came of the write under way, if there is one.
    pub(super) async fn end(&mut self, until: tokio::time::Instant) -> Result<Option<io::Result<()>>, Stuck> {
        let Some(ending) = &mut self.under_way else { return Ok(None) };
        let ended = timeout_at(until, ending).await.map_err(|_| Stuck)?;
        self.under_way = None;
        Ok(Some(ended.unwrap_or_else(|_| Err(io::Error::other("the writing thread has ended")))))
    }
}

/// The turn goes with the thread: nobody else has one before it ends.
fn start(
    place: LinesSettings,
    lines: Vec<u8>,
    lock_until: Instant,
    turn: OwnedSemaphorePermit,
) -> oneshot::Receiver<io::Result<()>> {
    let (tell, ending) = oneshot::channel();
    let write = move || {
        let written = match &place {
            LinesSettings::Stdout => write_out(&lines),
            LinesSettings::File(path) => append(path, &lines, lock_until),
        };
        drop(turn);
        // Whoever began it may be gone.
        drop(tell.send(written));
    };
    // Without a thread the sender is dropped, which says so.
    if let Err(error) = thread::Builder::new().name(THREAD.to_owned()).spawn(write) {
        tracing::warn!(%error, "no thread to write lines");
    }
    ending
}

fn write_out(lines: &[u8]) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(lines)?;
    out.flush()
}

/// Locked, because several relays may write to one file, and cut back on failure: a reader never meets half a line
/// followed by a whole one.
fn append(path: &Path, lines: &[u8], lock_until: Instant) -> io::Result<()> {
    let mut file = OpenOptions::new().append(true).create(true).open(path)?;
    lock(&file, lock_until)?;
    let before = file.metadata()?.len();
    let written = file.write_all(lines).and_then(|()| file.sync_data());
    if written.is_err() {
        cut_back(&file, before);
    }
    written
}

/// Waiting for a lock cannot be ended; trying can.
fn lock(file: &File, until: Instant) -> io::Result<()> {
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(()),
            Err(TryLockError::Error(error)) => return Err(error),
            Err(TryLockError::WouldBlock) if Instant::now() < until => thread::sleep(TRYING),
            Err(TryLockError::WouldBlock) => {
                let sentence =
                    "another program holds its lock; find it with `fuser`, and end it or let it finish";
                return Err(io::Error::new(io::ErrorKind::WouldBlock, sentence));
            }
        }
    }
}

fn cut_back(file: &File, length: u64) {
    if let Err(error) = file.set_len(length) {
        tracing::warn!(%error, "could not remove lines that were written only in part");
    }
}
