//! `posthaste dead letters` on the command line.

use clap::{Args, Subcommand};
use posthaste::inbox::{LetterFilter, LetterStatus};

use super::values;
use crate::config::Flag;
use crate::talk::ask::Consent;

/// Consumers' dead letters: what an inbox guard gave up on. List, show, discard them, or send them again
///
/// They lie in the database of the consumer, which is the log's unless --inbox-database, inbox.url in
/// the configuration or POSTHASTE_INBOX__URL says otherwise.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
#[command(
    after_help = "Examples:\n  posthaste dead letters                        all of them, newest first\n  \
                        posthaste dead letters --consumer billing --status open\n  \
                        posthaste dead letters show 7\n  \
                        posthaste dead letters resend 7 8 --to orders\n  \
                        posthaste dead letters resend --help          what a command can do"
)]
pub(crate) struct LettersOptions {
    #[command(flatten)]
    pub(crate) place: InboxPlace,
    #[command(flatten)]
    pub(crate) list: ListLetters,
    #[command(subcommand)]
    pub(crate) command: Option<LettersCommand>,
}

/// Where the letters are. Not `Debug` by itself: the URL may hold a password.
#[derive(Clone, Args)]
pub(crate) struct InboxPlace {
    /// The consumers' database, if it is not the log's: postgres://user@host/name or sqlite:FILE
    #[arg(long, global = true, value_name = "URL")]
    inbox_database: Option<String>,
    /// The schema of the inbox in PostgreSQL; otherwise posthaste_inbox
    #[arg(long, global = true, value_name = "NAME")]
    inbox_schema: Option<String>,
}

impl std::fmt::Debug for InboxPlace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("InboxPlace").field("inbox_schema", &self.inbox_schema).finish_non_exhaustive()
    }
}

impl InboxPlace {
    /// As places in the configuration.
    pub(crate) fn flags(&self) -> Vec<Flag> {
        let url = self.inbox_database.clone().map(|url| ("--inbox-database", "inbox.url", url));
        let schema = self.inbox_schema.clone().map(|schema| ("--inbox-schema", "inbox.schema", schema));
        url.into_iter().chain(schema).map(|(name, path, value)| Flag { name, path, value }).collect()
    }
}

#[derive(Debug, Subcommand)]
pub(crate) enum LettersCommand {
    List(ListLetters),
    Show(ShowLetter),
    Resend(ResendOptions),
    Discard(DiscardLetters),
}

/// List consumers' dead letters, newest first
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  posthaste dead letters list --consumer billing\n  \
                        posthaste dead letters list --status open --reason timeout")]
pub(crate) struct ListLetters {
    /// Of this consumer
    #[arg(long, value_name = "NAME")]
    consumer: Option<String>,
    /// From this topic
    #[arg(long)]
    topic: Option<String>,
    /// Whose reason contains this
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    /// Of the event with this id
    #[arg(long, value_name = "EVENT_ID")]
    event: Option<String>,
    /// That stand there: open, discarded or resent
    #[arg(long, value_parser = values::letter_status)]
    status: Option<LetterStatus>,
    /// At most this many, 1 to 500
    #[arg(long, value_name = "N", default_value_t = 50, allow_negative_numbers = true, value_parser = values::limit)]
    pub(crate) limit: u32,
    /// Go on where another page ended
    #[arg(long, value_name = "NUMBER")]
    after: Option<i64>,
}

impl ListLetters {
    pub(crate) fn narrows(&self) -> bool {
        let given = [&self.consumer, &self.topic, &self.reason, &self.event];
        given.iter().any(|field| field.is_some()) || self.status.is_some() || self.after.is_some()
    }

    pub(crate) fn filter(&self) -> LetterFilter {
        LetterFilter::new(|filter| {
            (filter.consumer, filter.topic) = (self.consumer.clone(), self.topic.clone());
            (filter.reason_contains, filter.event_id) = (self.reason.clone(), self.event.clone());
            (filter.status, filter.before) = (self.status, self.after);
        })
    }
}

/// Show a consumer's dead letter: the reason, where it came from, its body
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  posthaste dead letters show 7\n  \
                        posthaste dead letters show 7 --payload-only > body.json")]
pub(crate) struct ShowLetter {
    /// Which letter
    #[arg(value_name = "NUMBER")]
    pub(crate) number: i64,
    /// Write only the body, byte for byte
    #[arg(long)]
    pub(crate) payload_only: bool,
}

/// Send the events of consumers' dead letters again, by the subscription that the consumer listens to
///
/// The event goes once more the way it came: through the sink of that subscription, in the order of its
/// key. The consumer that gave up lets it in; every other consumer there gets a copy too, and its guard
/// knows that one as done. First the mark that giving up left is forgotten, then the event is made due,
/// then the letter is noted as resent: a command that dies in between is typed again, and an event that
/// the consumer has done since is not done twice.
/// A consumer that guards with Redis must forget the event itself.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
#[command(after_help = "Examples:\n  posthaste dead letters resend 7 --to orders\n  \
                        posthaste dead letters resend 7 8 9 --to orders --yes\n  \
                        posthaste dead letters resend 7 --to orders --inbox-database postgres://billing-db/billing")]
pub(crate) struct ResendOptions {
    /// Which letters
    #[arg(value_name = "NUMBER", required = true)]
    pub(crate) numbers: Vec<i64>,
    /// The subscription that delivers to the consumer
    #[arg(long, value_name = "SUBSCRIPTION")]
    pub(crate) to: String,
    #[command(flatten)]
    pub(crate) consent: Consent,
}

/// Decide that consumers' dead letters are not needed; other copies of their events stay duplicates
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  posthaste dead letters discard 7\n  \
                        posthaste dead letters discard 7 8 9 --yes")]
pub(crate) struct DiscardLetters {
    /// Which letters
    #[arg(value_name = "NUMBER", required = true)]
    pub(crate) numbers: Vec<i64>,
    #[command(flatten)]
    pub(crate) consent: Consent,
}
