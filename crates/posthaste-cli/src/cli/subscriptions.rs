//! `posthaste subscriptions` on the command line.

use std::time::Duration;

use clap::{Args, Subcommand};
use posthaste::admin::{ReplayFrom, SettingsChange};

use super::values;
use crate::talk::ask::Consent;

#[derive(Debug, Subcommand)]
pub(crate) enum SubscriptionsCommand {
    List(ListSubscriptions),
    Show(ShowSubscription),
    Set(SetOptions),
    Pause(PauseOptions),
    Resume(ResumeOptions),
    Rewind(RewindOptions),
    Remove(RemoveOptions),
}

/// List all subscriptions
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  posthaste subscriptions list")]
pub(crate) struct ListSubscriptions {}

/// Show one subscription: what it wants, its settings, its lanes, how it stands
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  posthaste subscriptions show billing")]
pub(crate) struct ShowSubscription {
    /// Which subscription
    #[arg(value_name = "SUBSCRIPTION")]
    pub(crate) name: String,
}

/// Put settings over the declared ones; running workers take them up within a second
///
/// What is not named stays as it is. What comes out must be valid as a whole, or nothing changes.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
#[command(
    after_help = "Examples:\n  posthaste subscriptions set billing --batch-size 200 --max-attempts 10\n  \
                        posthaste subscriptions set billing --rate 50/s           at most 50 events a second on each worker\n  \
                        posthaste subscriptions set billing --reset rate          this one as the program declares it\n  \
                        posthaste subscriptions set billing --reset               all of them"
)]
pub(crate) struct SetOptions {
    /// Which subscription
    #[arg(value_name = "SUBSCRIPTION")]
    pub(crate) name: String,
    /// Go back to what the program declares: these settings, named as below (rate, batch-size), or all of them
    #[arg(long, value_name = "SETTING", num_args = 0.., value_delimiter = ',', value_parser = values::setting(),
        hide_possible_values = true)]
    pub(crate) reset: Option<Vec<String>>,
    #[command(flatten)]
    pub(crate) change: Change,
}

/// The settings, each under the name it has everywhere.
#[derive(Debug, Clone, Copy, Args)]
#[group(multiple = true, conflicts_with = "reset")]
pub(crate) struct Change {
    /// Events per claim, 1 to 10000
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = values::up_to_10000)]
    batch_size: Option<u32>,
    /// Events handled at the same time by one worker, 1 to 10000
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = values::up_to_10000)]
    concurrency: Option<u32>,
    /// How long a lost wake-up may cost, 1ms to 1d
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true, value_parser = values::duration)]
    poll_interval: Option<Duration>,
    /// How long a claim is held without renewal, 100ms to 1d
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true, value_parser = values::duration)]
    lease: Option<Duration>,
    /// Attempts at an event before it is dead, 1 to 10000
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = values::up_to_10000)]
    max_attempts: Option<u32>,
    /// First pause before a retry, 1ms to 1d
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true, value_parser = values::duration)]
    base_delay: Option<Duration>,
    /// Longest pause before a retry, 1ms to 1d
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true, value_parser = values::duration)]
    max_delay: Option<Duration>,
    /// How long one event may take, 1ms to 1d
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true, value_parser = values::duration)]
    timeout: Option<Duration>,
    /// At most this many events a second on one worker, 1 to 1000000; 0 takes the limit away
    #[arg(long, value_name = "N", allow_hyphen_values = true, value_parser = values::rate_or_none)]
    rate: Option<u32>,
}

impl Change {
    /// `None`: nothing was given.
    pub(crate) fn settings(self) -> Option<SettingsChange> {
        let change = SettingsChange::new(|s| {
            (s.batch_size, s.concurrency, s.max_attempts) =
                (self.batch_size, self.concurrency, self.max_attempts);
            (s.poll_interval, s.lease, s.timeout) = (self.poll_interval, self.lease, self.timeout);
            (s.base_delay, s.max_delay, s.rate) = (self.base_delay, self.max_delay, self.rate);
        });
        (change != SettingsChange::default()).then_some(change)
    }
}

/// Stop claiming, in every process, within a second; what is being handled is finished
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  posthaste subscriptions pause billing")]
pub(crate) struct PauseOptions {
    /// Which subscriptions
    #[arg(value_name = "SUBSCRIPTION", required = true)]
    pub(crate) names: Vec<String>,
}

/// Go on after a pause
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  posthaste subscriptions resume billing")]
pub(crate) struct ResumeOptions {
    /// Which subscriptions
    #[arg(value_name = "SUBSCRIPTION", required = true)]
    pub(crate) names: Vec<String>,
}

/// Read again from a place on, and then on as usual
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  posthaste subscriptions rewind billing --to 2h\n  \
                        posthaste subscriptions rewind billing --to beginning --yes\n\n\
                        posthaste replay does the same and shows it catching up.")]
pub(crate) struct RewindOptions {
    /// Which subscription
    #[arg(value_name = "SUBSCRIPTION")]
    pub(crate) name: String,
    /// To where: `beginning`, an event's id, a time, or how long ago (2h)
    #[arg(long, value_name = "PLACE", value_parser = values::place)]
    pub(crate) to: ReplayFrom,
    #[command(flatten)]
    pub(crate) consent: Consent,
}

/// Remove a subscription with its progress and its dead letters; refused while a worker holds something of it
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  posthaste subscriptions remove analytics")]
pub(crate) struct RemoveOptions {
    /// Which subscription
    #[arg(value_name = "SUBSCRIPTION")]
    pub(crate) name: String,
    #[command(flatten)]
    pub(crate) consent: Consent,
}
