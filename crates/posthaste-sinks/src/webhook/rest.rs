//! What the sink remembers between requests: that the receiver wants to be left alone, and which events met a broken
//! connection. In memory only: after a restart the receiver is asked again.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use posthaste::EventId;

/// A pause for the whole receiver. Nothing is sent before it is over.
#[derive(Debug, Default)]
pub(super) struct Rest(Mutex<Option<(Instant, String)>>);

impl Rest {
    /// Leaves the receiver alone for so long.
    pub(super) fn begin(&self, pause: Duration, reason: String) {
        *lock(&self.0) = Some((Instant::now() + pause, reason));
    }

    /// The receiver has accepted something.
    pub(super) fn end(&self) {
        *lock(&self.0) = None;
    }

    /// Why nothing may be sent now.
    pub(super) fn reason(&self) -> Option<String> {
        let rest = lock(&self.0).clone();
        let (until, reason) = rest?;
        let left = until.checked_duration_since(Instant::now())?;
        Some(format!("{reason} (nothing is sent for another {} s)", left.as_secs() + 1))
    }
}

/// How often an event may lose its connection before it is suspected to break it.
const SUSPICIOUS: u32 = 3;

/// How many events are remembered. Beyond that all are forgotten, and suspicion begins anew.
const REMEMBERED: usize = 1000;

/// Events whose connection was lost although the receiver was there. One event that makes the receiver hang up must not
/// stop the others for ever, and a rolling restart must not cost attempts: so the first times count as the receiver's
/// absence, and then the event is to blame.
#[derive(Debug, Default)]
pub(super) struct Suspects(Mutex<HashMap<EventId, u32>>);

impl Suspects {
    /// Whether the event is to blame by now.
    pub(super) fn suspect(&self, id: EventId) -> bool {
        let mut known = lock(&self.0);
        if known.len() >= REMEMBERED {
            known.clear();
        }
        let times = known.entry(id).or_default();
        *times += 1;
        *times >= SUSPICIOUS
    }

    /// The event got an answer.
    pub(super) fn clear(&self, id: EventId) {
        lock(&self.0).remove(&id);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
