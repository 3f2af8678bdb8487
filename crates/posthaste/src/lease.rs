//! Claims and what ends them: who holds which events until when, and the settlements that report back.

use std::time::{Duration, Instant};

use chrono::{DateTime, Utc};

use crate::event::Event;
use crate::id::{EventId, Token, WorkerName};
use crate::outcome::Outcome;
use crate::subscription::{AfterDead, ClaimBy, Order, Settings};

/// A subscription as the store knows it now: declared, then adjusted by operators.
#[derive(Debug, Clone)]
pub(crate) struct Reader {
    pub(crate) id: i64,
    pub(crate) name: String,
    pub(crate) order: Order,
    pub(crate) claim_by: ClaimBy,
    pub(crate) after_dead: AfterDead,
    pub(crate) lanes: u16,
    pub(crate) settings: Settings,
    pub(crate) paused: bool,
}

impl Reader {
    /// Whether keys have an order, so that deliveries of one key wait for each other.
    pub(crate) fn keyed(&self) -> bool {
        self.order == Order::Key
    }

    /// Whether a dead letter holds the later events of its key.
    pub(crate) fn dead_blocks(&self) -> bool {
        self.keyed() && self.after_dead == AfterDead::Block
    }
}

/// A lane of a subscription, named: its number within one generation of lanes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Lane {
    pub(crate) generation: i32,
    pub(crate) number: i32,
    pub(crate) of: i32,
}

/// Ownership of a lane. In `key` and `strict` order all batches of a lane belong to its one holder.
#[derive(Debug)]
pub(crate) struct LaneClaim {
    pub(crate) lane: Lane,
    pub(crate) token: Token,
    /// What the former holder left unfinished, in number order.
    pub(crate) unfinished: Vec<Batch>,
}

/// A leased page of the log. Not `Clone`: it is settled once.
#[derive(Debug)]
pub(crate) struct Batch {
    pub(crate) lane: Lane,
    pub(crate) number: i64,
    pub(crate) token: Token,
    /// Where a crash or a fail-over can undo a claim: tells this batch from a later one of the same number.
    pub(crate) inserted_at: Option<DateTime<Utc>>,
    /// How often it was recorded which of its events were handled.
    pub(crate) records: i32,
    /// How often it was claimed, this time included.
    pub(crate) claims: u32,
    pub(crate) events: Vec<ClaimedEvent>,
    /// `strict` only: how far it came, and what was tried with the first event of the rest.
    pub(crate) held: Option<Held>,
}

/// `strict` order: the event at the head of the batch failed before.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Held {
    /// Everything up to here is done; the next owner goes on from it.
    pub(crate) done_to: i64,
    pub(crate) attempts: u32,
    /// Steps that those attempts have finished.
    pub(crate) steps: u32,
    /// How long to wait from the claim on.
    pub(crate) wait: Duration,
}

/// A claimed event of a batch.
#[derive(Debug)]
pub(crate) struct ClaimedEvent {
    pub(crate) event: Event,
    /// An earlier event of its key is still a delivery: it must queue behind it.
    pub(crate) blocked: bool,
    /// It has a delivery row already (after a replay, or because it is delayed): the batch must not touch it.
    pub(crate) elsewhere: bool,
    /// `Some` while its time has not come.
    pub(crate) wait: Option<Duration>,
}

/// A claimed delivery: one event, under its own lease.
#[derive(Debug)]
pub(crate) struct DeliveryClaim {
    pub(crate) event: Event,
    /// The key whose order it is part of; `None` for delayed events, which left it.
    pub(crate) key: Option<String>,
    /// Attempts, this one included.
    pub(crate) attempts: u32,
    /// Steps that earlier attempts have finished.
    pub(crate) steps: u32,
    pub(crate) token: Token,
    /// It is claimed alone because a worker was lost while holding it.
    pub(crate) solo: bool,
}

impl DeliveryClaim {
    /// The event.
    pub(crate) fn event(&self) -> &Event {
        &self.event
    }

    /// Attempts at this event, this one included.
    pub(crate) fn attempts(&self) -> u32 {
        self.attempts
    }
}

/// What a worker reports about one claimed event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Settlement {
    Delivered,
    /// Failed; try again after the delay, counted from now on the database's clock.
    Retry {
        delay: Duration,
        error: String,
    },
    Dead {
        error: String,
    },
    /// Not tried: it queues behind an earlier event of its key. The attempt counted at claim is given back.
    Park,
    /// Not tried, or tried against a receiver that is away: due again after the delay, the attempt given back.
    GiveBack {
        delay: Duration,
    },
    /// Its time has not come: due when it says, outside the order of its key.
    Delay {
        until: DateTime<Utc>,
    },
    /// Still running while its batch must be closed: goes on as a delivery under this token.
    Spill {
        token: Token,
    },
}

impl Settlement {
    /// Applies the policy to an outcome: the one place where attempts are compared with the limit.
    pub(crate) fn of(outcome: Outcome, attempts: u32, settings: &Settings) -> Self {
        match outcome {
            Outcome::Delivered => Self::Delivered,
            Outcome::Dead { reason } => Self::Dead { error: reason },
            Outcome::Retry { reason, .. } if attempts >= settings.max_attempts => Self::Dead {
                error: format!("gave up after {attempts} of {} attempts: {reason}", settings.max_attempts),
            },
            Outcome::Retry { after, reason } => Self::Retry {
                delay: after.unwrap_or_else(|| settings.retry().jittered(attempts)),
                error: reason,
            },
            Outcome::Unavailable { .. } => Self::GiveBack { delay: settings.base_delay },
        }
    }
}

/// One event of a batch that left the happy path, with what the store needs to write its delivery row.
#[derive(Debug, Clone)]
pub(crate) struct Trouble {
    pub(crate) seq: i64,
    pub(crate) event_id: EventId,
    /// The key whose order it stays in; `None` if it has none or left it.
    pub(crate) key: Option<String>,
    pub(crate) settlement: Settlement,
    /// Attempts counted so far (batches count in memory).
    pub(crate) attempts: u32,
    /// Steps finished so far.
    pub(crate) steps: u32,
    /// From a batch whose worker was lost twice: to be claimed alone.
    pub(crate) solo: bool,
}

/// The settlement of one delivery row.
#[derive(Debug, Clone)]
pub(crate) struct DeliverySettlement {
    pub(crate) seq: i64,
    pub(crate) token: Token,
    pub(crate) key: Option<String>,
    pub(crate) settlement: Settlement,
    /// Steps finished so far.
    pub(crate) steps: u32,
}

/// A lease as its holder sees it: on its own monotonic clock, counted from before the claim was sent.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LeaseClock {
    since: Instant,
    length: Duration,
}

impl LeaseClock {
    pub(crate) fn started(since: Instant, length: Duration) -> Self {
        Self { since, length }
    }

    /// Whether a delivery may still be started: not in the last tenth, so that the lease cannot have run out
    /// on the database's clock before the attempt even begins.
    pub(crate) fn may_start(&self) -> bool {
        self.since.elapsed() < self.length.mul_f64(0.9)
    }
}

/// One line of a delivery's history.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[non_exhaustive]
pub struct Attempt {
    /// The how-manieth attempt.
    pub attempt: u32,
    /// When it ended, by the database's clock.
    pub at: DateTime<Utc>,
    /// Who made it.
    pub worker: Option<String>,
    /// How it ended: `retry`, `dead`, `lost` when the worker's lease ran out, or `revived` by a person.
    pub outcome: String,
    /// What went wrong.
    pub error: Option<String>,
}

/// Who claims, and for how long.
#[derive(Debug, Clone)]
pub(crate) struct Holder {
    pub(crate) worker: WorkerName,
    pub(crate) lease: Duration,
}
