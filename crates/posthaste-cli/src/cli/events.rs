//! `posthaste events` on the command line.

use std::time::Duration;

use clap::{Args, Subcommand};
use posthaste::EventId;
use posthaste::admin::{EventQuery, EventStatus};
use uuid::Uuid;

use super::operate::Between;
use super::values;

#[derive(Debug, Subcommand)]
pub(crate) enum EventsCommand {
    List(ListEvents),
    Show(ShowEvent),
    Enqueue(EnqueueOptions),
}

/// List events, newest first
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  posthaste events list --topic orders --since 1h\n  \
                        posthaste events list --subscription billing --status pending --oldest-first\n  \
                        posthaste events list -f                                    new ones as they come")]
pub(crate) struct ListEvents {
    #[command(flatten)]
    pub(crate) filter: EventFilter,
    /// Oldest first
    #[arg(long)]
    pub(crate) oldest_first: bool,
    /// At most this many, 1 to 500
    #[arg(long, value_name = "N", default_value_t = 50, allow_negative_numbers = true, value_parser = values::limit)]
    pub(crate) limit: u32,
    /// Go on where another page ended
    #[arg(long, value_name = "SEQ")]
    pub(crate) after: Option<i64>,
    /// Print new events as they come, until Ctrl-C
    #[arg(long, short, conflicts_with_all = ["oldest_first", "after", "until"])]
    pub(crate) follow: bool,
}

/// Which events. Everything that is given must match.
#[derive(Debug, Clone, Args)]
pub(crate) struct EventFilter {
    /// Only what this subscription wants, with its state there
    #[arg(long, value_name = "NAME")]
    subscription: Option<String>,
    /// In this state of the subscription: pending, processing, delivered, dead
    #[arg(long, value_name = "STATUS", requires = "subscription", value_parser = values::status)]
    status: Option<EventStatus>,
    /// Whose last error in the subscription contains this
    #[arg(long, value_name = "TEXT", requires = "subscription")]
    error: Option<String>,
    /// In this topic
    #[arg(long)]
    topic: Option<String>,
    /// Of this type
    #[arg(long = "type", value_name = "TYPE")]
    event_type: Option<String>,
    /// With this key
    #[arg(long)]
    key: Option<String>,
    /// In this namespace
    #[arg(long)]
    namespace: Option<String>,
    /// Of this tenant, a UUID
    #[arg(long, value_name = "ID", value_parser = values::uuid)]
    tenant: Option<Uuid>,
    /// About this kind of thing
    #[arg(long, value_name = "TYPE")]
    aggregate_type: Option<String>,
    /// About this one
    #[arg(long, value_name = "ID")]
    aggregate_id: Option<String>,
    /// With this text somewhere in the body
    #[arg(long)]
    text: Option<String>,
    #[command(flatten)]
    between: Between,
}

impl EventFilter {
    pub(crate) fn query(&self) -> EventQuery {
        let filter = self.clone();
        EventQuery::new(|query| {
            (query.subscription, query.status) = (filter.subscription, filter.status);
            (query.topic, query.event_type, query.key) = (filter.topic, filter.event_type, filter.key);
            (query.namespace, query.tenant_id) = (filter.namespace, filter.tenant);
            (query.aggregate_type, query.aggregate_id) = (filter.aggregate_type, filter.aggregate_id);
            (query.since, query.until) = (filter.between.since, filter.between.until);
            (query.text, query.error_contains) = (filter.text, filter.error);
        })
    }
}

/// Show everything about an event: its fields, its body, its state in every subscription
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  posthaste events show 0198c5d2-7c1e-7a43-9f5b-2b1c6a1f0e11\n  \
                        posthaste events show 0198c5d2-7c1e-7a43-9f5b-2b1c6a1f0e11 --payload-only > body.json")]
pub(crate) struct ShowEvent {
    /// Which event
    #[arg(value_name = "EVENT_ID", value_parser = values::event_id)]
    pub(crate) id: EventId,
    /// Write the body to stdout, byte for byte, and nothing else
    #[arg(long)]
    pub(crate) payload_only: bool,
}

/// Enqueue an event in a transaction of its own
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  posthaste events enqueue orders '{\"order\": 17}' --key order-17 --type order.created\n  \
                        posthaste events enqueue orders @body.json -H source=import --dedupe-key import/17\n  \
                        posthaste events enqueue orders '{}' --aggregate-type order --aggregate-id 17\n  \
                        produce | posthaste events enqueue orders --delay 10m"
)]
pub(crate) struct EnqueueOptions {
    /// Into which topic
    pub(crate) topic: String,
    /// The body: text, or @FILE, or - for stdin, which is also the default
    #[arg(value_name = "PAYLOAD")]
    pub(crate) payload: Option<String>,
    /// The ordering key
    #[arg(long)]
    pub(crate) key: Option<String>,
    /// The event's type
    #[arg(long = "type", value_name = "TYPE")]
    pub(crate) event_type: Option<String>,
    /// The namespace
    #[arg(long)]
    pub(crate) namespace: Option<String>,
    /// The tenant, a UUID
    #[arg(long, value_name = "ID", value_parser = values::uuid)]
    pub(crate) tenant: Option<Uuid>,
    /// The kind of thing it is about, such as `order`
    #[arg(long, value_name = "TYPE", requires = "aggregate_id")]
    pub(crate) aggregate_type: Option<String>,
    /// Which one of them, such as `17`
    #[arg(long, value_name = "ID", requires = "aggregate_type")]
    pub(crate) aggregate_id: Option<String>,
    /// The media type of the body; otherwise JSON if it is JSON, text if it is text
    #[arg(long, value_name = "TYPE")]
    pub(crate) content_type: Option<String>,
    /// A header, as often as needed
    #[arg(long, short = 'H', value_name = "NAME=VALUE", value_parser = values::header)]
    pub(crate) header: Vec<(String, String)>,
    /// Enqueue at most once under this key
    #[arg(long, value_name = "KEY")]
    pub(crate) dedupe_key: Option<String>,
    /// Not to be delivered before this time has passed
    #[arg(long, value_name = "DURATION", value_parser = values::duration)]
    pub(crate) delay: Option<Duration>,
}
