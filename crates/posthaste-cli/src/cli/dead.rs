//! `posthaste dead` on the command line.

use clap::{Args, Subcommand};
use posthaste::EventId;
use posthaste::admin::DeliveryQuery;

use super::letters::LettersOptions;
use super::values;
use crate::talk::ask::Consent;

#[derive(Debug, Subcommand)]
pub(crate) enum DeadCommand {
    List(ListDead),
    Show(ShowDead),
    Retry(RetryOptions),
    Edit(EditOptions),
    Discard(DiscardOptions),
    Letters(LettersOptions),
}

/// List dead letters, newest first
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  posthaste dead list\n  posthaste dead list --subscription billing --error timeout"
)]
pub(crate) struct ListDead {
    #[command(flatten)]
    pub(crate) filter: DeadFilter,
    /// At most this many, 1 to 500
    #[arg(long, value_name = "N", default_value_t = 50, allow_negative_numbers = true, value_parser = values::limit)]
    pub(crate) limit: u32,
    /// Go on where another page ended
    #[arg(long, value_name = "SEQ")]
    pub(crate) after: Option<i64>,
}

/// Which dead letters. Everything that is given must match.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct DeadFilter {
    /// Of this subscription
    #[arg(long, short, value_name = "NAME")]
    pub(crate) subscription: Option<String>,
    /// In this topic
    #[arg(long)]
    pub(crate) topic: Option<String>,
    /// Of this type
    #[arg(long = "type", value_name = "TYPE")]
    pub(crate) event_type: Option<String>,
    /// With this key
    #[arg(long)]
    pub(crate) key: Option<String>,
    /// Whose last error contains this
    #[arg(long, value_name = "TEXT")]
    pub(crate) error: Option<String>,
}

impl DeadFilter {
    pub(crate) fn is_empty(&self) -> bool {
        let given = [&self.subscription, &self.topic, &self.event_type, &self.key, &self.error];
        given.iter().all(|field| field.is_none())
    }

    /// What it means in one subscription.
    pub(crate) fn query(&self, subscription: &str, events: &[EventId]) -> DeliveryQuery {
        DeliveryQuery::dead(subscription).only(|query| {
            query.events = events.to_vec();
            (query.topic, query.event_type) = (self.topic.clone(), self.event_type.clone());
            (query.key, query.error_contains) = (self.key.clone(), self.error.clone());
        })
    }
}

/// Show a dead letter: the error, every attempt, the event
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  posthaste dead show 0198c5d2-7c1e-7a43-9f5b-2b1c6a1f0e11")]
pub(crate) struct ShowDead {
    /// Which event
    #[arg(value_name = "EVENT_ID", value_parser = values::event_id)]
    pub(crate) id: EventId,
    /// Only in this subscription
    #[arg(long, short, value_name = "NAME")]
    pub(crate) subscription: Option<String>,
}

/// Try dead letters again, now, with all attempts before them
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  posthaste dead retry 0198c5d2-7c1e-7a43-9f5b-2b1c6a1f0e11\n  \
                        posthaste dead retry --subscription billing --error 'card service'\n  \
                        posthaste dead retry --all --dry-run")]
pub(crate) struct RetryOptions {
    #[command(flatten)]
    pub(crate) choice: Choice,
}

/// Give dead letters up for good
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  posthaste dead discard 0198c5d2-7c1e-7a43-9f5b-2b1c6a1f0e11\n  \
                        posthaste dead discard --subscription analytics --type order.legacy --yes")]
pub(crate) struct DiscardOptions {
    #[command(flatten)]
    pub(crate) choice: Choice,
}

/// One, many, or all that match.
#[derive(Debug, Args)]
pub(crate) struct Choice {
    /// These events
    #[arg(value_name = "EVENT_ID", value_parser = values::event_id)]
    pub(crate) ids: Vec<EventId>,
    #[command(flatten)]
    pub(crate) filter: DeadFilter,
    /// All dead letters of all subscriptions, unless something above narrows it
    #[arg(long)]
    pub(crate) all: bool,
    #[command(flatten)]
    pub(crate) consent: Consent,
}

/// Try one dead letter again with another body; the log keeps the one that was enqueued
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  posthaste events show ID --payload-only > body.json\n  \
                        posthaste dead edit ID --subscription billing --payload @body.json")]
pub(crate) struct EditOptions {
    /// Which event
    #[arg(value_name = "EVENT_ID", value_parser = values::event_id)]
    pub(crate) id: EventId,
    /// In which subscription
    #[arg(long, short, value_name = "NAME")]
    pub(crate) subscription: String,
    /// The new body: text, or @FILE, or - for stdin
    #[arg(long, value_name = "PAYLOAD")]
    pub(crate) payload: String,
}
