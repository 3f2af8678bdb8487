//! The operator's commands on the command line.

use std::time::Duration;

use chrono::{DateTime, Utc};
use clap::{Args, Subcommand};
use posthaste::EventId;
use posthaste::admin::ReplayFrom;

use super::dead::DeadCommand;
use super::events::EventsCommand;
use super::subscriptions::SubscriptionsCommand;
use super::values;
use crate::talk::ask::Consent;

#[derive(Debug, Subcommand)]
pub(crate) enum Operate {
    Status(StatusOptions),
    /// See, change, pause, rewind and remove subscriptions
    #[command(subcommand)]
    #[command(
        after_help = "Examples:\n  posthaste subscriptions list\n  posthaste subscriptions show billing\n  posthaste subscriptions set --help       what a command can do"
    )]
    Subscriptions(SubscriptionsCommand),
    /// List, show, follow and enqueue events
    #[command(subcommand)]
    #[command(
        after_help = "Examples:\n  posthaste events list --topic orders --since 1h\n  posthaste events list -f                 new ones as they come\n  posthaste events enqueue --help          what a command can do"
    )]
    Events(EventsCommand),
    /// List, show, retry, edit and discard dead letters
    #[command(subcommand)]
    #[command(
        after_help = "Examples:\n  posthaste dead list\n  posthaste dead retry --subscription billing --error timeout\n  posthaste dead letters                   what consumers gave up on\n  posthaste dead retry --help              what a command can do"
    )]
    Dead(DeadCommand),
    /// See which keys wait behind an event that failed, and let one go on
    #[command(subcommand)]
    #[command(after_help = "Examples:\n  posthaste keys blocked\n  posthaste keys release billing order-17")]
    Keys(KeysCommand),
    Replay(ReplayOptions),
    Why(WhyOptions),
    Retain(RetainOptions),
    Completions(CompletionsOptions),
}

/// Give a verdict on each subscription, with the reason and the next step
///
/// healthy  everything is delivered within a minute
/// behind   events have waited for more than a minute, and they move
/// failing  an event died within the last hour, or a dead one blocks its key, or retries go on for a minute
/// stalled  events have waited for more than a minute, and nothing moves
/// paused   somebody paused it
///
/// Exit code 4 if any is failing or stalled. With --watch, 0 when it is stopped.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
#[command(after_help = "Examples:\n  posthaste status                       all subscriptions\n  \
                        posthaste status billing --watch       one of them, again and again\n  \
                        posthaste status --json | jq .ok       for scripts")]
pub(crate) struct StatusOptions {
    /// Only these subscriptions
    #[arg(value_name = "SUBSCRIPTION")]
    pub(crate) names: Vec<String>,
    /// Look again and again, until Ctrl-C
    #[arg(long, short)]
    pub(crate) watch: bool,
    /// How long to wait between two looks
    #[arg(long, value_name = "DURATION", default_value = "2s", value_parser = values::duration)]
    pub(crate) every: Duration,
}

#[derive(Debug, Subcommand)]
pub(crate) enum KeysCommand {
    Blocked(BlockedOptions),
    Release(ReleaseOptions),
}

/// List keys whose events wait behind one that failed
///
/// In `key` order an event waits until the one before it with the same key is delivered or given up.
/// Behind an event that is tried again, the key goes on by itself; behind a dead letter (where the
/// subscription says after_dead = "block") it waits for a person.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
#[command(after_help = "Examples:\n  posthaste keys blocked\n  posthaste keys blocked billing --limit 100")]
pub(crate) struct BlockedOptions {
    /// Only in this subscription
    #[arg(value_name = "SUBSCRIPTION")]
    pub(crate) subscription: Option<String>,
    /// At most this many keys of each subscription
    #[arg(long, value_name = "N", default_value_t = 50, allow_negative_numbers = true, value_parser = values::limit)]
    pub(crate) limit: u32,
}

/// Let a key go on although the event before is dead; the dead letter stays
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  posthaste keys release billing order-17")]
pub(crate) struct ReleaseOptions {
    /// In which subscription
    #[arg(value_name = "SUBSCRIPTION")]
    pub(crate) subscription: String,
    /// Which key
    #[arg(value_name = "KEY")]
    pub(crate) key: String,
}

/// Deliver everything from a place on once more, and watch it
///
/// Events that have a delivery (retrying or dead) are left to it. Ctrl-C stops the watching, not the replay.
/// A limit by --rate is taken away when the watching sees the end; otherwise it stays, and the last
/// sentence names the command that takes it away.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
#[command(after_help = "Examples:\n  posthaste replay billing --from 2h\n  \
                        posthaste replay billing --from beginning --rate 200/s\n  \
                        posthaste replay billing --from 2026-03-01 --no-watch --yes")]
pub(crate) struct ReplayOptions {
    /// Which subscription
    #[arg(value_name = "SUBSCRIPTION")]
    pub(crate) subscription: String,
    /// From where: `beginning`, an event's id, a time, or how long ago (2h)
    #[arg(long, value_name = "PLACE", value_parser = values::place)]
    pub(crate) from: ReplayFrom,
    /// At most this many events a second on each worker until the replay is done, 1 to 1000000
    #[arg(long, value_name = "N", allow_hyphen_values = true, value_parser = values::rate)]
    pub(crate) rate: Option<u32>,
    /// Do not wait until it is done
    #[arg(long)]
    pub(crate) no_watch: bool,
    #[command(flatten)]
    pub(crate) consent: Consent,
}

/// Tell the life of one event, subscription by subscription, in sentences
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  posthaste why 0198c5d2-7c1e-7a43-9f5b-2b1c6a1f0e11")]
pub(crate) struct WhyOptions {
    /// Which event
    #[arg(value_name = "EVENT_ID", value_parser = values::event_id)]
    pub(crate) id: EventId,
}

/// Remove events that are old enough and that nobody needs
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  posthaste retain --older-than 30d --dry-run     what would go, and what holds the rest\n  \
                        posthaste retain --older-than 30d               from cron, every few minutes"
)]
pub(crate) struct RetainOptions {
    /// Events older than this, such as 30d
    #[arg(long, value_name = "DURATION", value_parser = values::duration)]
    pub(crate) older_than: Duration,
    /// Finished batches older than this, the journal that `why` reads
    #[arg(long, value_name = "DURATION", default_value = "1d", value_parser = values::duration)]
    pub(crate) journal_older_than: Duration,
    /// Say what would go and why the rest stays, and change nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
}

/// Print what a shell needs to complete commands
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  posthaste completions bash > /etc/bash_completion.d/posthaste\n  \
                        posthaste completions zsh > \"${fpath[1]}/_posthaste\"\n  \
                        posthaste completions fish > ~/.config/fish/completions/posthaste.fish")]
pub(crate) struct CompletionsOptions {
    /// For which shell
    pub(crate) shell: clap_complete::Shell,
}

/// A span of time in the log.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct Between {
    /// Enqueued at or after: a time, a day, or how long ago (2h)
    #[arg(long, value_name = "TIME", value_parser = values::time)]
    pub(crate) since: Option<DateTime<Utc>>,
    /// Enqueued before
    #[arg(long, value_name = "TIME", value_parser = values::time)]
    pub(crate) until: Option<DateTime<Utc>>,
}
