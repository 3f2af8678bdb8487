//! What a guard answers.

use std::fmt::{self, Display};
use std::time::Duration;

use crate::error::Error;

/// What became of one copy of an event.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use = "a message may be acknowledged only if the event was handled"]
pub enum Once<T> {
    /// The effect ran, and the event is marked as done. Acknowledge the message.
    Done(T),
    /// The event was done before; nothing ran. Acknowledge the message.
    Duplicate,
    /// Another copy is being handled at this moment. Do not acknowledge this one: the other may still fail. Let it come
    /// again later.
    Busy {
        /// When to try again at the earliest.
        retry_after: Duration,
    },
}

impl<T> Once<T> {
    /// Whether the message may be acknowledged: the event is done, now or before.
    pub fn is_handled(&self) -> bool {
        matches!(self, Self::Done(_) | Self::Duplicate)
    }
}

/// What marking answers, inside the consumer's transaction.
#[cfg(any(feature = "postgres", feature = "sqlite"))]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "the effect of a duplicate must not be repeated"]
pub enum Mark {
    /// It was not marked before: do the effect in this transaction, and commit.
    Fresh,
    /// It was done before. Leave the effect alone.
    Duplicate,
}

/// What giving up on a message answers, outside the transaction that ran its effect. Either way it may be acknowledged.
#[cfg(any(feature = "postgres", feature = "sqlite"))]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GivenUp {
    /// It is kept as a dead letter with this number.
    Kept(i64),
    /// Another copy has done the event: there was nothing to give up.
    DoneBefore,
}

/// Why an event is not done. The message must not be acknowledged.
#[derive(Debug)]
pub enum OnceError<E> {
    /// The effect failed; the guard has let go of the event, and the next copy runs it again.
    Effect(E),
    /// The guard failed: the store is away, the lease was lost, the transaction conflicted.
    Inbox(Error),
}

impl<E> From<Error> for OnceError<E> {
    fn from(error: Error) -> Self {
        Self::Inbox(error)
    }
}

impl<E: Display> Display for OnceError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Effect(error) => error.fmt(f),
            Self::Inbox(error) => error.fmt(f),
        }
    }
}

impl<E: std::error::Error> std::error::Error for OnceError<E> {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Effect(error) => error.source(),
            Self::Inbox(error) => error.source(),
        }
    }
}
