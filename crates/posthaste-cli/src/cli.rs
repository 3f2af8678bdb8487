//! What the command line accepts.

use std::fmt::Display;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::str::FromStr;

use clap::{Args, Parser, Subcommand};

mod relay;
mod setup;

pub(crate) use relay::RelayOptions;
pub(crate) use setup::{CheckOptions, DoctorOptions, InitOptions, MigrateOptions, VersionOptions};
pub(crate) mod values;
pub(crate) mod subscriptions;
pub(crate) mod events;
pub(crate) mod letters;
pub(crate) mod dead;
pub(crate) mod operate;

/// Posthaste, a transactional outbox: write your rows and an event in one transaction;
/// every subscription gets the event, at least once, in order per key.
#[derive(Parser)]
#[command(name = "posthaste", version, verbatim_doc_comment)]
#[command(arg_required_else_help = true, disable_help_subcommand = true)]
#[command(
    after_help = "Examples:\n  posthaste dev                    see it work, with nothing to install\n  \
                        posthaste init                   write a configuration file with comments\n  \
                        posthaste check                  is everything right: file, database, sinks?\n  \
                        posthaste migrate                create the tables\n  \
                        posthaste relay                  deliver, until Ctrl-C or SIGTERM\n  \
                        posthaste status                 how every subscription stands, and what to do\n  \
                        posthaste why EVENT_ID           what became of an event\n  \
                        posthaste dev --help             what a command can do, with examples"
)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: GlobalOptions,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Where the options stand that are not the command's own.
const COMMON: &str = "Common options";

/// What every command understands. Not `Debug`: the URL may hold a password.
#[derive(Args)]
pub(crate) struct GlobalOptions {
    /// The configuration file; otherwise posthaste.toml in this folder, if there is one
    #[arg(long, global = true, value_name = "FILE", help_heading = COMMON)]
    pub(crate) config: Option<PathBuf>,
    /// The database, instead of the one configured: postgres://user@host/name or sqlite:FILE
    #[arg(long, global = true, value_name = "URL", help_heading = COMMON)]
    pub(crate) database: Option<String>,
    /// Print JSON instead of words, for scripts
    #[arg(long, global = true, help_heading = COMMON)]
    pub(crate) json: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Relay(RelayOptions),
    Dev(DevOptions),
    Init(InitOptions),
    Check(CheckOptions),
    Doctor(DoctorOptions),
    Migrate(MigrateOptions),
    Version(VersionOptions),
    #[command(flatten)]
    Operate(Box<operate::Operate>),
}

/// Run a sample application and three subscriptions on SQLite, and show live what happens
///
/// The application writes orders and their events, each pair in one transaction.
/// `shipping` is healthy; `billing` fails now and then and recovers by retry; `analytics`
/// meets a poison event, which ends dead while everything else goes on.
/// Ctrl-C stops it cleanly, with a summary; a second Ctrl-C ends it at once.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
#[command(
    after_help = "Examples:\n  posthaste dev                                until Ctrl-C, on a temporary file\n  \
                        posthaste dev --for 10 --rate 20             ten seconds, twenty orders a second\n  \
                        posthaste dev --database orders.db           keep the file, and go on with it next time\n  \
                        posthaste dev --for 10 --json                a line of JSON for every moment, the summary last"
)]
pub(crate) struct DevOptions {
    /// Keep the data in this SQLite file; otherwise a temporary one is made, and removed at the end
    // Stands in for the option of the same name that all commands have, so it must be of the same type.
    #[arg(long, value_name = "PATH")]
    pub(crate) database: Option<String>,
    /// Stop by itself after this many seconds, for scripts
    #[arg(long = "for", value_name = "SECONDS", allow_negative_numbers = true, value_parser = seconds)]
    pub(crate) seconds: Option<u64>,
    /// Orders per second, 1 to 1000
    #[arg(long, value_name = "N", default_value_t = 4, allow_negative_numbers = true, value_parser = rate)]
    pub(crate) rate: u32,
}

fn seconds(text: &str) -> Result<u64, String> {
    whole_number(text, 1..=86_400)
}

fn rate(text: &str) -> Result<u32, String> {
    whole_number(text, 1..=1000)
}

fn whole_number<N: FromStr + PartialOrd + Display>(
    text: &str,
    range: RangeInclusive<N>,
) -> Result<N, String> {
    let wanted = || format!("give a whole number from {} to {}", range.start(), range.end());
    text.parse().ok().filter(|number| range.contains(number)).ok_or_else(wanted)
}
