//! What a trial is about: how its subscription is worked on, so that a failpoint is reached, and what becomes of its events.

use std::time::Duration;

use posthaste::{ClaimBy, Order, Subscription};
use serde::{Deserialize, Serialize};

pub(crate) const NAME: &str = "failpoints";
pub(crate) const LEASE: Duration = Duration::from_millis(800);
const BATCH: u32 = 10;
const CONCURRENCY: u32 = 8;
/// Of an owned lane, and of a worker that claims beside others.
const BATCHES_IN_FLIGHT: u32 = 2;

/// SQLite has no windows and no transactional handlers.
pub(crate) const ONLY_ON_POSTGRES: [&str; 4] =
    ["window-fixed", "handler-returned", "settled-within", "handler-committed"];

/// How a subscription is worked on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Scene {
    Key,
    Event,
    None,
    Strict,
    Transactional,
}

impl Scene {
    /// The one in which a failpoint is reached; most are in several.
    pub(crate) fn of(point: &str) -> Self {
        match point {
            "reclaiming" | "batch-reread" | "reclaimed" => Self::None,
            "recording" | "progress-noted" | "recorded" => Self::Event,
            "holding" | "hold-noted" | "held" => Self::Strict,
            "handler-returned" | "settled-within" | "handler-committed" => Self::Transactional,
            _ => Self::Key,
        }
    }

    pub(crate) fn subscription(self) -> Subscription {
        let subscription = Subscription::new(NAME).unwrap().settings(|s| {
            s.batch_size = BATCH;
            s.concurrency = CONCURRENCY;
            s.lease = LEASE;
            s.poll_interval = Duration::from_millis(100);
            s.base_delay = Duration::from_millis(10);
            s.max_delay = Duration::from_millis(50);
            // Only what is rejected may die, however often its worker does.
            s.max_attempts = 1_000;
        });
        match self {
            Self::Key | Self::Transactional => subscription,
            Self::Event => subscription.claim_by(ClaimBy::Event),
            Self::None => subscription.order(Order::None),
            Self::Strict => subscription.order(Order::Strict),
        }
    }

    /// How many duplicates one death allows: what is in flight in batches, and what is in flight of the deliveries that are
    /// due. The effects of a transactional handler happen once.
    pub(crate) fn duplicates_per_kill(self) -> usize {
        match self {
            Self::Transactional => 0,
            _ => (BATCH * BATCHES_IN_FLIGHT + CONCURRENCY) as usize,
        }
    }

    pub(crate) fn has_order(self) -> bool {
        self != Self::None
    }
}

/// What becomes of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    Accepted,
    /// Accepted after a while.
    Slow,
    /// Fails at the first attempt of every worker.
    FailsFirst,
    /// Becomes a dead letter.
    Rejected,
}

impl Fate {
    /// By its number, the last part of its body.
    pub(crate) fn of(body: &[u8]) -> Self {
        let text = std::str::from_utf8(body).unwrap();
        let number: u64 = text.rsplit(':').next().unwrap().parse().unwrap();
        match number % 19 {
            5 | 15 => Self::FailsFirst,
            8 => Self::Rejected,
            2 | 12 => Self::Slow,
            _ => Self::Accepted,
        }
    }
}
