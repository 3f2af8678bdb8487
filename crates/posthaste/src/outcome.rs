//! What became of an attempt, and which state of a delivery may follow which. The lifecycle, in one file.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// What a handler or sink reports for one event.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Outcome {
    /// Accepted: this subscription is done with the event.
    Delivered,
    /// Try again later: after `after`, or after the policy's backoff.
    Retry {
        /// A delay that the receiver asked for.
        after: Option<Duration>,
        /// What went wrong, for people.
        reason: String,
    },
    /// Never try again by itself: rejected, unknown, invalid, too large.
    Dead {
        /// Why, for people.
        reason: String,
    },
    /// Not about the event but about the receiver: it is away or throttles. No attempt is counted; the
    /// subscription waits and probes.
    Unavailable {
        /// What went wrong, for people.
        reason: String,
    },
}

impl Outcome {
    /// Retry after the policy's backoff.
    pub fn retry(reason: impl ToString) -> Self {
        Self::Retry { after: None, reason: reason.to_string() }
    }

    /// Retry after this delay.
    pub fn retry_after(after: Duration, reason: impl ToString) -> Self {
        Self::Retry { after: Some(after), reason: reason.to_string() }
    }

    /// Never retry.
    pub fn dead(reason: impl ToString) -> Self {
        Self::Dead { reason: reason.to_string() }
    }

    /// The receiver is away.
    pub fn unavailable(reason: impl ToString) -> Self {
        Self::Unavailable { reason: reason.to_string() }
    }
}

/// The state of a delivery row. "Delivered" is the absence of a row behind the subscription's progress.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DeliveryStatus {
    /// Waits for its time, or behind an earlier event of its key.
    Pending,
    /// Claimed under a lease.
    Processing,
    /// Will not be retried by itself.
    Dead,
}

impl DeliveryStatus {
    /// The word used in the database and in front of people.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Processing => "processing",
            Self::Dead => "dead",
        }
    }

    pub(crate) fn parse(word: &str) -> Option<Self> {
        [Self::Pending, Self::Processing, Self::Dead].into_iter().find(|status| status.as_str() == word)
    }
}

/// What happens to a delivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// A worker takes it under a lease; the attempt is counted here.
    Claim,
    /// The receiver accepted it.
    Deliver,
    /// It failed and may be tried again.
    Fail,
    /// It was rejected for good.
    Reject,
    /// It was not tried after all: receiver away, worker stopping, or an earlier event of its key failed.
    GiveBack,
    /// Its holder's lease ran out.
    Expire,
    /// A person asked for another try.
    Revive,
}

/// Where a delivery stands: `Gone` means delivered (or discarded by a person).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// There is a row in this state with this many attempts counted.
    Row(DeliveryStatus, u32),
    /// There is no row any more.
    Gone,
}

impl Standing {
    /// The state after a step, or `None` if that step is not allowed here. The stores' statements follow this table.
    pub fn after(self, step: Step, max_attempts: u32) -> Option<Self> {
        use DeliveryStatus::{Dead, Pending, Processing};
        match (self, step) {
            (Self::Row(Pending, attempts), Step::Claim) if attempts >= max_attempts => {
                Some(Self::Row(Dead, attempts))
            }
            (Self::Row(Pending, attempts), Step::Claim) => Some(Self::Row(Processing, attempts + 1)),
            (Self::Row(Processing, _), Step::Deliver) => Some(Self::Gone),
            (Self::Row(Processing, attempts), Step::Fail | Step::Expire) if attempts >= max_attempts => {
                Some(Self::Row(Dead, attempts))
            }
            (Self::Row(Processing, attempts), Step::Fail | Step::Expire) => {
                Some(Self::Row(Pending, attempts))
            }
            (Self::Row(Processing, attempts), Step::Reject) => Some(Self::Row(Dead, attempts)),
            (Self::Row(Processing, attempts), Step::GiveBack) => {
                Some(Self::Row(Pending, attempts.saturating_sub(1)))
            }
            (Self::Row(Dead, _), Step::Revive) => Some(Self::Row(Pending, 0)),
            _ => None,
        }
    }
}
