//! What a verdict depends on, and nothing else.

use std::fmt;
use std::time::Duration;

use chrono::{DateTime, Utc};
use posthaste::admin::{Count, SubscriptionState};
use posthaste::{AfterDead, Order};

use crate::talk::out::clean;
use crate::talk::shape::number;
use crate::talk::time::{between, span};

/// Waiting and retrying for longer than this is worth a word.
pub(super) const PATIENCE: Duration = Duration::from_secs(60);

/// A number that counting may have stopped at.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Amount {
    pub(super) number: u64,
    pub(super) more: bool,
}

impl From<Count> for Amount {
    fn from(count: Count) -> Self {
        Self { number: number(count), more: count.more_than().is_some() }
    }
}

impl fmt::Display for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", if self.more { "more than " } else { "" }, self.number)
    }
}

/// A subscription, as a verdict sees it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Facts {
    pub(crate) name: String,
    pub(crate) paused_for: Option<Duration>,
    pub(crate) lag: Amount,
    pub(crate) oldest_age: Option<Duration>,
    pub(crate) in_flight: Amount,
    pub(crate) retrying: Amount,
    pub(crate) parked: Amount,
    pub(crate) parked_keys: Amount,
    pub(crate) delayed: Amount,
    pub(crate) dead: Amount,
    pub(crate) newest_dead_ago: Option<Duration>,
    /// A dead letter holds the later events of its key.
    pub(crate) dead_blocks: bool,
    /// How long a retry has been due that nobody took.
    pub(crate) retry_overdue: Option<Duration>,
    /// How long ago a batch was settled last, as far as the journal is kept.
    pub(crate) moved_ago: Option<Duration>,
    pub(crate) workers: usize,
    pub(crate) last_error: Option<String>,
}

impl Facts {
    pub(crate) fn of(state: &SubscriptionState, now: DateTime<Utc>) -> Self {
        let ago = |time: Option<DateTime<Utc>>| time.map(|time| between(time, now));
        Self {
            name: state.name.clone(),
            paused_for: ago(state.paused_since),
            lag: state.lag.into(),
            oldest_age: state.oldest_age,
            in_flight: state.in_flight.into(),
            retrying: state.retrying.into(),
            parked: state.parked.into(),
            parked_keys: state.parked_keys.into(),
            delayed: state.delayed.into(),
            dead: state.dead.into(),
            newest_dead_ago: ago(state.newest_dead_at),
            dead_blocks: state.order == Order::Key && state.after_dead == AfterDead::Block,
            retry_overdue: ago(state.oldest_retry_due).filter(|overdue| !overdue.is_zero()),
            moved_ago: ago(state.lanes.iter().filter_map(|lane| lane.moved_at).max()),
            workers: state.workers.len(),
            last_error: state.last_error.as_deref().map(clean),
        }
    }

    /// Events that could be delivered now: not retrying, not behind another one, not delayed.
    pub(super) fn ready(&self) -> u64 {
        let elsewhere = self.retrying.number + self.parked.number + self.delayed.number;
        self.lag.number.saturating_sub(elsewhere).max(u64::from(self.lag.more))
    }

    pub(super) fn waits_long(&self) -> bool {
        self.oldest_age.is_some_and(|age| age > PATIENCE)
    }

    pub(super) fn moved_lately(&self) -> bool {
        self.moved_ago.is_some_and(|ago| ago <= PATIENCE)
    }

    pub(super) fn oldest(&self) -> String {
        span(self.oldest_age.unwrap_or_default())
    }

    pub(super) fn error(&self) -> String {
        self.last_error.as_ref().map(|error| format!(": {error}")).unwrap_or_default()
    }
}
