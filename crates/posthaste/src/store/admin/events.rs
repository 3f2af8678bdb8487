//! Questions about events and deliveries, and their answers.

use chrono::{DateTime, Utc};
use uuid::Uuid;

use crate::event::Event;
use crate::id::EventId;
use crate::lease::Attempt;
use crate::outcome::DeliveryStatus;

use super::state::Count;

/// Where an event stands in a subscription.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum EventStatus {
    /// Not delivered yet: not claimed, or waiting for another attempt.
    Pending,
    /// A worker holds it.
    Processing,
    /// Done.
    Delivered,
    /// Will not be retried by itself.
    Dead,
}

impl EventStatus {
    /// The word used in the database and in front of people.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Processing => "processing",
            Self::Delivered => "delivered",
            Self::Dead => "dead",
        }
    }

    /// The status of a word.
    pub fn parse(word: &str) -> Option<Self> {
        let all = [Self::Pending, Self::Processing, Self::Delivered, Self::Dead];
        all.into_iter().find(|status| status.as_str() == word)
    }
}

/// Which events to list. Everything that is set must match.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct EventQuery {
    /// Only what this subscription wants; its state is part of the answer.
    pub subscription: Option<String>,
    /// Only in this state (of the subscription, which must be given).
    pub status: Option<EventStatus>,
    /// This event.
    pub id: Option<EventId>,
    /// In this namespace.
    pub namespace: Option<String>,
    /// In this topic.
    pub topic: Option<String>,
    /// Of this type.
    pub event_type: Option<String>,
    /// With this key.
    pub key: Option<String>,
    /// About this kind of thing.
    pub aggregate_type: Option<String>,
    /// About this one.
    pub aggregate_id: Option<String>,
    /// Of this tenant.
    pub tenant_id: Option<Uuid>,
    /// Enqueued at or after.
    pub since: Option<DateTime<Utc>>,
    /// Enqueued before.
    pub until: Option<DateTime<Utc>>,
    /// With these bytes somewhere in the payload.
    pub text: Option<String>,
    /// Whose last error (in the subscription, which must be given) contains this.
    pub error_contains: Option<String>,
    /// Oldest first; newest first otherwise.
    pub oldest_first: bool,
    /// Go on from where another page ended: its `next`.
    pub after: Option<i64>,
    /// At most this many, 1 to 500. Default 50.
    pub limit: u32,
    /// Look at no more than this many events for one page. Default 10,000.
    pub look_at: u32,
}

impl Default for EventQuery {
    fn default() -> Self {
        Self {
            subscription: None,
            status: None,
            id: None,
            namespace: None,
            topic: None,
            event_type: None,
            key: None,
            aggregate_type: None,
            aggregate_id: None,
            tenant_id: None,
            since: None,
            until: None,
            text: None,
            error_contains: None,
            oldest_first: false,
            after: None,
            limit: 50,
            look_at: 10_000,
        }
    }
}

impl EventQuery {
    /// Everything, then narrowed: `EventQuery::new(|q| q.topic = Some("orders".into()))`.
    pub fn new(narrow: impl FnOnce(&mut Self)) -> Self {
        let mut query = Self::default();
        narrow(&mut query);
        query
    }
}

/// A page of events.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct EventPage {
    /// The events, in the order asked for.
    pub events: Vec<Found>,
    /// How many events were looked at for this page.
    pub looked_at: u64,
    /// Where the next page goes on; `None` if the end of the log was reached. A page may be short, or empty, and still
    /// have a next one: looking is bounded.
    pub next: Option<i64>,
}

/// An event that matched.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Found {
    /// The event.
    pub event: Event,
    /// Its state in the subscription that was asked for.
    pub state: Option<EventState>,
}

/// An event with its state in every subscription that wants it.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct EventDetail {
    /// The event, as it was enqueued.
    pub event: Event,
    /// Its states, by subscription.
    pub states: Vec<EventState>,
}

/// The state of an event in one subscription.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct EventState {
    /// Which subscription.
    pub subscription: String,
    /// Where it stands.
    pub status: EventStatus,
    /// Attempts made or being made.
    pub attempts: u32,
    /// When the next attempt may be.
    pub next_attempt_at: Option<DateTime<Utc>>,
    /// It waits behind an earlier event of its key.
    pub parked: bool,
    /// Who holds it.
    pub locked_by: Option<String>,
    /// Until when.
    pub locked_until: Option<DateTime<Utc>>,
    /// What went wrong last.
    pub last_error: Option<String>,
    /// The body an operator put in place of the one in the log.
    pub edited_payload: Option<Vec<u8>>,
    /// Its attempts, oldest first; the last 20.
    pub history: Vec<Attempt>,
}

/// Which deliveries a verb is for. Everything that is set must match. What a worker holds under a live lease never does.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct DeliveryQuery {
    /// Of which subscription.
    pub subscription: String,
    /// In which state; any if `None`.
    pub status: Option<DeliveryStatus>,
    /// Of these events; all if empty.
    pub events: Vec<EventId>,
    /// Of this key.
    pub key: Option<String>,
    /// In this topic.
    pub topic: Option<String>,
    /// Of this type.
    pub event_type: Option<String>,
    /// Whose last error contains this.
    pub error_contains: Option<String>,
    /// At most this many, oldest first. Default: no limit.
    pub limit: Option<u64>,
}

impl DeliveryQuery {
    /// All deliveries of a subscription.
    pub fn all(subscription: impl Into<String>) -> Self {
        Self {
            subscription: subscription.into(),
            status: None,
            events: Vec::new(),
            key: None,
            topic: None,
            event_type: None,
            error_contains: None,
            limit: None,
        }
    }

    /// The dead letters of a subscription.
    pub fn dead(subscription: impl Into<String>) -> Self {
        Self { status: Some(DeliveryStatus::Dead), ..Self::all(subscription) }
    }

    /// One event.
    pub fn event(subscription: impl Into<String>, id: EventId) -> Self {
        Self { events: vec![id], ..Self::all(subscription) }
    }

    /// Narrows it: `.only(|q| q.topic = Some("orders".into()))`.
    pub fn only(mut self, narrow: impl FnOnce(&mut Self)) -> Self {
        narrow(&mut self);
        self
    }
}

/// A key whose events wait for the one at its head.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct BlockedKey {
    /// The key.
    pub key: String,
    /// How many events wait behind the head.
    pub waiting: Count,
    /// The event at the head.
    pub head: EventId,
    /// When it failed first: since then the key waits.
    pub since: DateTime<Utc>,
    /// How it stands; a dead one needs a person.
    pub status: DeliveryStatus,
    /// Attempts made at it.
    pub attempts: u32,
    /// When the next may be.
    pub next_attempt_at: DateTime<Utc>,
    /// What went wrong with it last.
    pub last_error: Option<String>,
}

/// A line of the journal: a batch in which a subscription read an event. What became of the event there is told by its
/// [`EventState`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Reading {
    /// Which subscription.
    pub subscription: String,
    /// When the batch was claimed, the last time if it was more than once.
    pub claimed_at: DateTime<Utc>,
    /// When it was settled.
    pub finished_at: Option<DateTime<Utc>>,
    /// Who claimed it.
    pub worker: Option<String>,
}
