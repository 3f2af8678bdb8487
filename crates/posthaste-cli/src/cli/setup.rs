//! What the commands accept that come before delivering: `init`, `check`, `doctor`, `migrate`, `version`.

use std::path::PathBuf;

use clap::Args;

/// Write a configuration file with comments, to be edited
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  posthaste init\n  posthaste init shop.toml --sink kafka")]
pub(crate) struct InitOptions {
    /// The file to write; otherwise posthaste.toml in this folder
    #[arg(value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
    /// Begin with this sink: stdout, file, kafka, pubsub, nats, rabbitmq, redis, sqs, webhook, event_store, steps
    #[arg(long, value_name = "NAME", default_value = "stdout")]
    pub(crate) sink: String,
    /// Overwrite a file that is there
    #[arg(long)]
    pub(crate) force: bool,
}

/// Check the configuration, the database and each sink, and say what to do
///
/// One line for each: ok, warning or problem. Exit code 0 if deliveries can be made, 78 for
/// mistakes in the configuration and missing tables, 69 if the database is away, 77 if it
/// refuses, 4 for the rest.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
#[command(after_help = "Examples:\n  posthaste check\n  posthaste check --offline --config shop.toml\n  \
                  posthaste check --json | jq '.items[] | select(.state != \"ok\")'")]
pub(crate) struct CheckOptions {
    /// Only the configuration; connect to nothing
    #[arg(long)]
    pub(crate) offline: bool,
}

/// Examine the database, the log and each sink, and say what to do about what is found
///
/// About twenty checks: version, primary, privileges, clock, long transactions, bloat, wake-up,
/// durability, subscriptions, sinks. Exit code 4 if one of them fails, or, as for `check`, 78, 69
/// or 77 if the configuration or the database is the reason; warnings alone are 0.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
#[command(after_help = "Examples:\n  posthaste doctor\n  \
                  posthaste doctor --json | jq '.checks[] | select(.verdict != \"ok\")'")]
pub(crate) struct DoctorOptions {}

/// Create Posthaste's tables, or bring them up to date
///
/// Safe to run at every deployment and from several machines at once. With --print it only
/// prints the SQL, complete, for those who apply it with a tool of their own; nothing is connected to.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
#[command(after_help = "Examples:\n  posthaste migrate\n  \
                  posthaste migrate --print --database postgres://localhost/shop > posthaste.sql\n  \
                  posthaste migrate --print | psql -1 -v ON_ERROR_STOP=1 postgres://localhost/shop")]
pub(crate) struct MigrateOptions {
    /// Print the SQL instead of running it
    #[arg(long)]
    pub(crate) print: bool,
}

/// Print the version, and which sinks are built in
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  posthaste version\n  posthaste version --json")]
pub(crate) struct VersionOptions {}
