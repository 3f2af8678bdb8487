//! One old event once more to one subscription: which way leads there. Pure, and the same for every store.

use crate::outcome::DeliveryStatus;

use super::events::{EventState, EventStatus};

/// How an event that was asked for comes again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Redelivery {
    /// It is due now.
    Due,
    /// It waits behind an earlier event of its key, and comes after it.
    Parked,
    /// It was not delivered yet, so it comes anyway; nothing was changed.
    Coming,
    /// A worker holds it at this moment, and may have sent it already; nothing was changed. Ask again when it is settled.
    Held,
}

impl Redelivery {
    /// The word in front of people and scripts.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Due => "due",
            Self::Parked => "parked",
            Self::Coming => "coming",
            Self::Held => "held",
        }
    }
}

/// The delivery that an event has already.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Existing {
    pub(crate) status: DeliveryStatus,
    pub(crate) parked: bool,
    /// Steps that a sink has finished: they are not made again by themselves.
    pub(crate) steps: i16,
    /// Under a live lease.
    pub(crate) held: bool,
}

/// What has to be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    /// It was delivered: it needs a delivery.
    Write,
    /// Its delivery is dead or half done: it begins anew.
    Revive,
    /// Nothing.
    Leave(Redelivery),
}

impl Existing {
    pub(crate) fn way(self) -> Way {
        match self.status {
            _ if self.held => Way::Leave(Redelivery::Held),
            DeliveryStatus::Pending if self.steps == 0 => Way::Leave(match self.parked {
                true => Redelivery::Parked,
                false => Redelivery::Coming,
            }),
            _ => Way::Revive,
        }
    }

    /// Where it stands afterwards.
    pub(crate) fn placed(self) -> Redelivery {
        match self.status {
            DeliveryStatus::Pending if self.parked => Redelivery::Parked,
            DeliveryStatus::Pending => Redelivery::Due,
            // Claimed by event, or settled with it still running, since it was looked for.
            DeliveryStatus::Processing | DeliveryStatus::Dead => Redelivery::Held,
        }
    }
}

/// For an event without a delivery.
pub(crate) fn way_without_delivery(state: &EventState) -> Way {
    match state.status {
        EventStatus::Delivered => Way::Write,
        // Not read yet. One that was tried stands at the head of an open batch, with steps that may be finished.
        EventStatus::Pending if state.attempts == 0 => Way::Leave(Redelivery::Coming),
        _ => Way::Leave(Redelivery::Held),
    }
}
