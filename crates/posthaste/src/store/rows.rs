//! How claimed events become delivery rows, and how settlements change them. Pure, and the same for every store.

use std::collections::HashSet;
use std::time::Duration;

use chrono::{DateTime, Utc};

use crate::id::{EventId, Token};
use crate::lease::{ClaimedEvent, DeliverySettlement, Reader, Settlement, Trouble};
use crate::outcome::DeliveryStatus;

/// A delivery row to be written, in the terms of the insert statements.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DeliveryRow {
    pub(crate) seq: i64,
    pub(crate) event_id: EventId,
    pub(crate) key: Option<String>,
    pub(crate) status: DeliveryStatus,
    pub(crate) parked: bool,
    pub(crate) solo: bool,
    pub(crate) attempts: u32,
    pub(crate) steps: i16,
    pub(crate) due_at: Option<DateTime<Utc>>,
    pub(crate) delay: Duration,
    pub(crate) token: Option<Token>,
    pub(crate) error: Option<String>,
    pub(crate) outcome: Option<&'static str>,
}

impl DeliveryRow {
    fn of(trouble: &Trouble) -> Self {
        let row = Self {
            seq: trouble.seq,
            event_id: trouble.event_id,
            key: trouble.key.clone(),
            status: DeliveryStatus::Pending,
            parked: false,
            solo: trouble.solo,
            attempts: trouble.attempts,
            steps: small(trouble.steps),
            due_at: None,
            delay: Duration::ZERO,
            token: None,
            error: None,
            outcome: None,
        };
        match trouble.settlement.clone() {
            Settlement::Delivered | Settlement::Park => row,
            Settlement::Retry { delay, error } => {
                Self { delay, error: Some(error), outcome: Some("retry"), ..row }
            }
            Settlement::Dead { error } => {
                Self { status: DeliveryStatus::Dead, error: Some(error), outcome: Some("dead"), ..row }
            }
            Settlement::GiveBack { delay } => Self { delay, ..row },
            Settlement::Delay { until } => Self { due_at: Some(until), key: None, ..row },
            Settlement::Spill { token } => {
                Self { status: DeliveryStatus::Processing, token: Some(token), ..row }
            }
        }
    }
}

/// The rows for events that left the happy path. `blocked` holds the keys that have an earlier row; within the list, each
/// row blocks the later ones of its key, in the order given (seq order).
pub(crate) fn delivery_rows(
    troubles: &[Trouble],
    mut blocked: HashSet<String>,
    dead_blocks: bool,
) -> Vec<DeliveryRow> {
    let place = |trouble: &Trouble| {
        let mut row = DeliveryRow::of(trouble);
        let Some(key) = &row.key else { return row };
        row.parked = row.status == DeliveryStatus::Pending && blocked.contains(key);
        if row.status != DeliveryStatus::Dead || dead_blocks {
            blocked.insert(key.clone());
        }
        row
    };
    troubles.iter().map(place).collect()
}

/// The key whose order an event is part of; delayed events leave it.
pub(crate) fn order_key(claimed: &ClaimedEvent, reader: &Reader) -> Option<String> {
    let ordered = reader.keyed() && claimed.event.available_at.is_none();
    claimed.event.key.clone().filter(|_| ordered)
}

/// An event of a batch that was lost before: to be claimed alone, from its first attempt on.
pub(crate) fn isolated(claimed: &ClaimedEvent, reader: &Reader) -> Trouble {
    Trouble { solo: true, ..left_over(claimed, reader) }
}

/// An event of a batch that was taken away from its worker: to be tried as if for the first time.
pub(crate) fn left_over(claimed: &ClaimedEvent, reader: &Reader) -> Trouble {
    let settlement = match claimed.event.available_at {
        Some(until) if claimed.wait.is_some() => Settlement::Delay { until },
        _ => Settlement::Park,
    };
    trouble(claimed, reader, settlement, 0, false)
}

fn trouble(
    claimed: &ClaimedEvent,
    reader: &Reader,
    settlement: Settlement,
    attempts: u32,
    solo: bool,
) -> Trouble {
    Trouble {
        seq: claimed.event.seq,
        event_id: claimed.event.id,
        key: order_key(claimed, reader),
        settlement,
        attempts,
        steps: 0,
        solo,
    }
}

/// Marks the events of a batch that were handled before it was lost.
pub(crate) fn leave_out(page: &mut [ClaimedEvent], handled: &[i64]) {
    for claimed in page.iter_mut().filter(|_| !handled.is_empty()) {
        claimed.elsewhere |= handled.contains(&claimed.event.seq);
    }
}

/// Splits a page claimed by event: what this worker holds from now on, and all rows to write.
pub(crate) fn as_deliveries<'a>(
    page: &'a [ClaimedEvent],
    reader: &Reader,
    token: Token,
) -> (Vec<(i64, &'a ClaimedEvent)>, Vec<Trouble>) {
    let mut held = Vec::new();
    let mut troubles = Vec::new();
    // The branches of a page are read by two statements: what one of them saw blocked is blocked for both.
    let mut blocked: HashSet<String> = HashSet::new();
    for claimed in page.iter().filter(|claimed| !claimed.elsewhere) {
        let key = order_key(claimed, reader);
        if claimed.blocked {
            blocked.extend(key.clone());
        }
        let (settlement, attempts) = match claimed.event.available_at {
            Some(until) if claimed.wait.is_some() => (Settlement::Delay { until }, 0),
            _ if key.as_ref().is_some_and(|key| blocked.contains(key)) => (Settlement::Park, 0),
            _ => (Settlement::Spill { token }, 1),
        };
        if attempts == 1 {
            held.push((claimed.event.seq, claimed));
        }
        troubles.push(trouble(claimed, reader, settlement, attempts, false));
    }
    (held, troubles)
}

/// Finished steps as the stores hold them. Too many become fewer, never more: a step may be made again, none skipped.
pub(crate) fn small(steps: u32) -> i16 {
    i16::try_from(steps).unwrap_or(i16::MAX)
}

/// What a settlement other than "delivered" writes.
pub(crate) struct Change<'a> {
    pub(crate) seq: i64,
    pub(crate) token: Token,
    pub(crate) status: DeliveryStatus,
    pub(crate) parked: bool,
    pub(crate) give_back: bool,
    pub(crate) steps: i16,
    pub(crate) delay: Duration,
    pub(crate) error: Option<&'a str>,
    pub(crate) outcome: Option<&'static str>,
}

impl<'a> Change<'a> {
    pub(crate) fn of(settlement: &'a DeliverySettlement) -> Option<Self> {
        let change = Change {
            seq: settlement.seq,
            token: settlement.token,
            status: DeliveryStatus::Pending,
            parked: false,
            give_back: false,
            steps: small(settlement.steps),
            delay: Duration::ZERO,
            error: None,
            outcome: None,
        };
        Some(match &settlement.settlement {
            Settlement::Delivered | Settlement::Spill { .. } | Settlement::Delay { .. } => return None,
            Settlement::Retry { delay, error } => {
                Change { delay: *delay, error: Some(error), outcome: Some("retry"), ..change }
            }
            Settlement::Dead { error } => {
                Change { status: DeliveryStatus::Dead, error: Some(error), outcome: Some("dead"), ..change }
            }
            Settlement::Park => Change { parked: settlement.key.is_some(), give_back: true, ..change },
            Settlement::GiveBack { delay } => Change { delay: *delay, give_back: true, ..change },
        })
    }
}
