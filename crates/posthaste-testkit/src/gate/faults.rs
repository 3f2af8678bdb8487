//! What can be wrong with the way through a gate. Plain data, shared with every connection.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// What is wrong at the moment. What happens to the connections of one moment only is counted: a connection remembers the
/// count of its birth, and a higher one means that it happened to it.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Faults {
    /// Nothing comes through anywhere.
    pub(super) silent: bool,
    pub(super) abandoned: u64,
    pub(super) reset: u64,
    pub(super) half_closed: u64,
    /// How much later requests arrive.
    pub(super) request_delay: Duration,
    /// How much later answers arrive.
    pub(super) answer_delay: Duration,
    pub(super) limit: Option<Limit>,
    /// One answer out of so many is dropped.
    pub(super) drop_every: Option<u64>,
}

/// How much of the answers a connection lets through before it breaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Limit {
    pub(super) bytes: usize,
    /// A new limit is a new allowance, also for connections that had one before.
    pub(super) number: u64,
}

/// What all connections count together.
#[derive(Debug, Default)]
pub(super) struct Counts {
    pub(super) connections: AtomicU64,
    pub(super) answers: AtomicU64,
    pub(super) dropped: AtomicU64,
}

impl Counts {
    /// Counts an answer, and says whether it is one of those to drop.
    pub(super) fn drops(&self, every: u64) -> bool {
        let dropped = (self.answers.fetch_add(1, Ordering::Relaxed) + 1).is_multiple_of(every);
        self.dropped.fetch_add(u64::from(dropped), Ordering::Relaxed);
        dropped
    }
}

/// What is left of the allowance of one connection.
#[derive(Debug, Default)]
pub(super) struct Allowance {
    limit: Option<Limit>,
    left: usize,
}

impl Allowance {
    /// How many of so many bytes come through, and whether the connection breaks after them.
    pub(super) fn take(&mut self, limit: Option<Limit>, bytes: usize) -> (usize, bool) {
        if self.limit != limit {
            *self = Self { limit, left: limit.map_or(0, |limit| limit.bytes) };
        }
        let through = if limit.is_some() { bytes.min(self.left) } else { bytes };
        self.left = self.left.saturating_sub(through);
        (through, limit.is_some() && self.left == 0)
    }
}
