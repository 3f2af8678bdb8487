//! The port for tests: what a connection sees of the log, what is left to deliver, and due times that can be moved.
//!
//! Everything here may read the whole log and may touch rows that nobody else ever changes: it is for the small private
//! databases of tests.

use std::time::Duration;

use async_trait::async_trait;
use chrono::{DateTime, Utc};

use crate::error::Result;
use crate::id::EventId;

/// What a connection saw of the log at a moment.
///
/// A mark that was taken after events were enqueued in a transaction ends with that transaction's rollback: SQLite gives
/// the places of those events to the next ones.
#[derive(Debug, Clone)]
pub struct EventMark {
    /// The last place in the log; in PostgreSQL the last one of the mark's own transaction.
    pub(crate) seq: i64,
    /// PostgreSQL: the transaction in which the mark was taken, and what was visible in it.
    #[cfg(feature = "postgres")]
    pub(crate) snapshot: Option<(String, String)>,
}

/// An event that a subscription wants and has not delivered.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct NotDelivered {
    /// Which event.
    pub id: EventId,
    /// Its topic.
    pub topic: String,
    /// Its type.
    pub event_type: Option<String>,
    /// Its ordering key.
    pub key: Option<String>,
    /// Attempts made at it.
    pub attempts: u32,
    /// What went wrong last.
    pub last_error: Option<String>,
    /// Why it is not delivered.
    pub why: Why,
}

/// Why an event is not delivered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Why {
    /// It could be delivered now.
    Due,
    /// A worker holds it.
    InFlight,
    /// Its time has not come: it is delayed, or backs off after a failure.
    Waiting {
        /// When it comes.
        until: DateTime<Utc>,
        /// How far away that is, on the database's clock.
        due_in: Duration,
    },
    /// It waits behind an earlier event of its key, or of the subscription in `strict` order.
    Behind,
    /// It will not be retried by itself.
    Dead,
}

/// A row of `not_delivered.sql`, as far as it decides why an event is not delivered.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Found<'a> {
    pub(crate) status: &'a str,
    pub(crate) own: bool,
    pub(crate) due_at: DateTime<Utc>,
    /// Microseconds; none left if it is due.
    pub(crate) due_in: i64,
    pub(crate) parked: bool,
    pub(crate) held: bool,
}

impl Found<'_> {
    pub(crate) fn why(self) -> Why {
        match self.status {
            "dead" => Why::Dead,
            // The head of a held batch has the time it waits for; the view shows the others as being processed.
            "pending" if self.parked => Why::Behind,
            "pending" if self.due_in > 0 => {
                Why::Waiting { until: self.due_at, due_in: Duration::from_micros(self.due_in.unsigned_abs()) }
            }
            _ if self.held && !self.own => Why::Behind,
            "pending" => Why::Due,
            _ => Why::InFlight,
        }
    }
}

/// Which due times to move.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Move {
    /// Everything that waits for a time, in all subscriptions.
    Everything,
    /// Retries of one subscription that are due later than this from now.
    Retries { subscription: i64, later_than: Duration },
}

/// A database that tests can look into. Implemented by the stores, and by nobody else.
#[async_trait]
pub(crate) trait TestStore: Send + Sync {
    /// What a subscription wants and has not delivered, in the order of the log, seen at one moment.
    async fn not_delivered(&self, subscription: &str) -> Result<Vec<NotDelivered>>;
    /// Moves due times back.
    async fn advance(&self, by: Duration, what: Move) -> Result<()>;
}
