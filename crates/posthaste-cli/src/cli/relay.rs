//! What `posthaste relay` accepts.

use clap::Args;

use super::GlobalOptions;
use crate::config::Flag;

/// Deliver: run every configured subscription until Ctrl-C or SIGTERM
///
/// Reads the configuration (see `posthaste init`), starts a worker for each subscription and
/// delivers committed events to its sink. Several relays on one database share the work.
/// SIGTERM and Ctrl-C stop cleanly, within the grace time; a second one ends at once.
/// SIGHUP reads the file again and restarts only the subscriptions that changed.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
#[command(
    after_help = "Examples:\n  posthaste relay\n  posthaste relay --config /etc/posthaste.toml --migrate\n  \
                  POSTHASTE_RELAY__GRACE=10s posthaste relay --listen off --log json"
)]
pub(crate) struct RelayOptions {
    /// Create Posthaste's tables, or bring them up to date, before anything starts
    #[arg(long)]
    pub(crate) migrate: bool,
    /// Where /healthz and /readyz are served, or `off`
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<String>,
    /// How long a stop may take, such as 30s
    #[arg(long, value_name = "DURATION")]
    grace: Option<String>,
    /// How log lines look: pretty or json
    #[arg(long, value_name = "FORM")]
    log: Option<String>,
    /// What this relay is called in leases and in the delivery journal
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
}

impl RelayOptions {
    /// The flags as places in the file. `--json` means JSON logs here: the relay prints nothing else.
    pub(crate) fn flags(&self, global: &GlobalOptions) -> Vec<Flag> {
        let json = global.json.then(|| "json".to_owned());
        let flags = [
            ("--listen", "relay.listen", self.listen.clone()),
            ("--grace", "relay.grace", self.grace.clone()),
            ("--json", "relay.log", json),
            ("--log", "relay.log", self.log.clone()),
            ("--name", "relay.name", self.name.clone()),
        ];
        let given = |(name, path, value): (_, _, Option<String>)| Some(Flag { name, path, value: value? });
        flags.into_iter().filter_map(given).collect()
    }
}
