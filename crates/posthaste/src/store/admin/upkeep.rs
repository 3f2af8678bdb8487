//! Replay, retention, rebase and the record of what people did.

use std::fmt;
use std::time::Duration;

use chrono::{DateTime, Utc};

use crate::id::EventId;

/// Where a replay begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReplayFrom {
    /// At the oldest event that is still there.
    Beginning,
    /// With the first event enqueued at or after this time.
    Time(DateTime<Utc>),
    /// With this event.
    Event(EventId),
}

/// What retention may remove.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct RetentionPolicy {
    /// Events older than this, once nobody needs them. Default 7 days.
    pub events_older_than: Duration,
    /// Finished batches older than this: the journal of who delivered what. Default 1 day.
    pub journal_older_than: Duration,
    /// Lines about what people did, older than this. Default 365 days.
    pub operations_older_than: Duration,
    /// Rows per transaction, at least 1. Default 1,000.
    pub chunk: u32,
}

impl Default for RetentionPolicy {
    fn default() -> Self {
        let day = Duration::from_secs(86_400);
        Self {
            events_older_than: 7 * day,
            journal_older_than: day,
            operations_older_than: 365 * day,
            chunk: 1_000,
        }
    }
}

impl RetentionPolicy {
    /// The default, then changed: `RetentionPolicy::new(|p| p.chunk = 100)`.
    pub fn new(change: impl FnOnce(&mut Self)) -> Self {
        let mut policy = Self::default();
        change(&mut policy);
        policy
    }
}

/// What a retention run did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RetentionReport {
    /// Events removed.
    pub events: u64,
    /// Expired dedupe keys removed.
    pub dedupe_keys: u64,
    /// Finished batches removed.
    pub batches: u64,
    /// Marks removed.
    pub marks: u64,
    /// Lines about operations removed.
    pub operations: u64,
    /// Why events that are old enough are still there.
    pub held_back: Vec<HeldBack>,
}

/// Who still needs events that are older than the retention time.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum HeldBack {
    /// A lane that has not come past them: its worker is away, slow or paused.
    Lane {
        /// Whose lane.
        subscription: String,
        /// Which.
        lane: i32,
        /// The oldest event it still needs.
        oldest_seq: i64,
        /// How old that is.
        oldest_age: Duration,
        /// Whether the subscription is paused.
        paused: bool,
    },
    /// Deliveries of a subscription: dead letters and events that are retried keep their event.
    Deliveries {
        /// Whose.
        subscription: String,
        /// How many of them are dead letters.
        dead: u64,
        /// How many are not.
        waiting: u64,
    },
}

impl fmt::Display for HeldBack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Lane { subscription, lane, oldest_seq, oldest_age, paused } => {
                let days = oldest_age.as_secs() / 86_400;
                let why = if *paused { " and is paused" } else { "" };
                write!(
                    f,
                    "`{subscription}` (lane {lane}) still needs event {oldest_seq}, {days} days old{why}"
                )
            }
            Self::Deliveries { subscription, dead, waiting } => {
                write!(f, "`{subscription}` has {dead} dead letters and {waiting} waiting deliveries")
            }
        }
    }
}

/// What a rebase did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RebaseReport {
    /// Events whose transaction id was rewritten.
    pub events: u64,
    /// Lanes that were tied to this cluster.
    pub lanes: u64,
    /// Events that had committed late and were not seen yet: they are deliveries now.
    pub deliveries: u64,
}

/// Something a person did.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Operation {
    /// When.
    pub at: DateTime<Utc>,
    /// Who.
    pub who: String,
    /// What: `retry`, `skip`, `pause`, ...
    pub verb: String,
    /// On which subscription.
    pub subscription: Option<String>,
    /// On which event.
    pub event: Option<EventId>,
    /// More, depending on the verb.
    pub detail: serde_json::Value,
}
