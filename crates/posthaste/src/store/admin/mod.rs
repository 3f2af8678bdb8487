//! The port for operating: what people may ask and do, in one sealed trait beside [`Store`](super::Store).
//!
//! Nothing here is on the way of an event. Every verb is one transaction (or a row of small ones), leaves a line in the
//! `operations` table, and never touches what a worker holds under a live lease.

use std::fmt::Debug;

use async_trait::async_trait;

use crate::error::Result;
use crate::event::Event;
use crate::id::EventId;

mod events;
mod redelivery;
mod state;
mod upkeep;

pub use events::{
    BlockedKey, DeliveryQuery, EventDetail, EventPage, EventQuery, EventState, EventStatus, Found, Reading,
};
pub use redelivery::Redelivery;
pub(crate) use redelivery::{Existing, Way, way_without_delivery};
pub use state::{Count, LaneState, SettingsChange, SubscriptionState};
pub(crate) use state::{Override, overridden};
pub use upkeep::{HeldBack, Operation, RebaseReport, ReplayFrom, RetentionPolicy, RetentionReport};

/// What to do with deliveries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Verb {
    /// Pending again, with no attempt counted; with another body if one is given.
    Retry { payload: Option<Vec<u8>> },
    /// Pending again, from its first step on: it goes out once more as a whole.
    Redeliver,
    /// Out of the way, counted as done.
    Skip,
    /// Given up for good: dead letters only.
    Discard,
}

impl Verb {
    /// The word in the `operations` table.
    pub(crate) fn as_str(&self) -> &'static str {
        match self {
            Self::Retry { payload: None } => "retry",
            Self::Retry { payload: Some(_) } => "edit and retry",
            Self::Redeliver => "redeliver",
            Self::Skip => "skip",
            Self::Discard => "discard",
        }
    }
}

/// A database that can be operated. Implemented by the stores, and by nobody else.
#[async_trait]
pub(crate) trait AdminStore: Debug + Send + Sync {
    /// The names of all subscriptions, sorted.
    async fn subscription_names(&self) -> Result<Vec<String>>;
    /// How a subscription stands; counts go up to `limit`.
    async fn subscription_state(&self, name: &str, limit: u32) -> Result<SubscriptionState>;

    /// A page of events that match.
    async fn search(&self, query: &EventQuery) -> Result<EventPage>;
    /// An event with its state in every subscription that wants it.
    async fn event_detail(&self, id: EventId) -> Result<EventDetail>;

    /// In which batches of the journal an event was read.
    async fn readings(&self, event: &Event) -> Result<Vec<Reading>>;
    /// Keys whose events wait for the one at their head, those with most of them first.
    async fn blocked_keys(&self, subscription: &str, look_at: u32, limit: u32) -> Result<Vec<BlockedKey>>;

    /// How many deliveries match, counted up to `limit`.
    async fn count_deliveries(&self, query: &DeliveryQuery, limit: u32) -> Result<Count>;
    /// Applies a verb to the deliveries that match; returns how many it changed.
    async fn apply(&self, verb: &Verb, query: &DeliveryQuery, who: &str) -> Result<u64>;
    /// Delivers one event once more to one subscription.
    async fn redeliver(&self, subscription: &str, id: EventId, who: &str) -> Result<Redelivery>;
    /// Lets a key go on although its head is dead; returns how many dead letters no longer hold it.
    async fn release_key(&self, subscription: &str, key: &str, who: &str) -> Result<u64>;

    /// Pauses or resumes; `false`: it was so already.
    async fn set_paused(&self, subscription: &str, paused: bool, who: &str) -> Result<bool>;
    /// Puts settings over the declared ones, or takes them away.
    async fn override_settings(&self, subscription: &str, change: Override<'_>, who: &str) -> Result<()>;
    /// Removes a subscription with its progress and its deliveries.
    async fn delete_subscription(&self, subscription: &str, who: &str) -> Result<()>;

    /// Makes a subscription read again from a place on; returns the seq it reads from.
    async fn replay(&self, subscription: &str, from: ReplayFrom, who: &str) -> Result<i64>;
    /// Removes what nobody needs any more.
    async fn retain(&self, policy: &RetentionPolicy) -> Result<RetentionReport>;
    /// How many events [`retain`](Self::retain) would remove, and what holds the others back.
    async fn preview_retention(&self, policy: &RetentionPolicy) -> Result<RetentionReport>;
    /// After dump and restore: ties the marks to the transaction ids of this cluster.
    async fn rebase(&self, who: &str) -> Result<RebaseReport>;
    /// After pg_upgrade: records the new cluster and changes nothing else.
    async fn keep(&self, who: &str) -> Result<()>;

    /// What people did, newest first.
    async fn operations(&self, limit: u32) -> Result<Vec<Operation>>;
    /// What people did to one event, oldest first.
    async fn operations_on(&self, id: EventId) -> Result<Vec<Operation>>;
}
