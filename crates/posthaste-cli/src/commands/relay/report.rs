//! What the relay says when it starts: a page for people, or log lines.

use std::net::SocketAddr;

use tracing::info;

use super::fleet::{Fleet, Prepared};
use crate::commands::version::VERSION;
use crate::config::{Config, LogForm};

/// Before anything is waited for.
pub(crate) fn start(
    config: &Config,
    fleet: &Fleet,
    prepared: &[Prepared],
    health: Option<SocketAddr>,
    form: LogForm,
) {
    match form {
        LogForm::Pretty => page(config, fleet, prepared, health).iter().for_each(|line| eprintln!("{line}")),
        LogForm::Json => log_lines(config, fleet, prepared, health),
    }
}

/// All workers run.
pub(crate) fn ready(fleet: &Fleet, form: LogForm) {
    match form {
        LogForm::Pretty => {
            eprintln!(
                "Delivering. Ctrl-C or SIGTERM stops it cleanly; SIGHUP reads the configuration again."
            );
        }
        LogForm::Json => info!(subscriptions = fleet.configs().len(), "delivering"),
    }
}

fn page(config: &Config, fleet: &Fleet, prepared: &[Prepared], health: Option<SocketAddr>) -> Vec<String> {
    let mut lines = vec![
        format!("posthaste {VERSION}, relay {}", fleet.name),
        format!("  configuration  {}", source(config)),
        format!("  database       {}", config.database.shown()),
        format!("  health         {}", health_in_words(health)),
    ];
    let width = prepared.iter().map(|prepared| prepared.config.name.len()).max().unwrap_or(0);
    for Prepared { config, sink } in prepared {
        lines.push(format!(
            "  {:<width$}  {}, {}",
            config.name,
            config.filter_in_words(),
            config.order_in_words()
        ));
        lines.push(format!("  {:<width$}  to {}", "", sink.describe()));
    }
    lines
}

fn log_lines(config: &Config, fleet: &Fleet, prepared: &[Prepared], health: Option<SocketAddr>) {
    info!(
        version = VERSION,
        relay = %fleet.name,
        configuration = source(config),
        database = config.database.shown(),
        health = health_in_words(health),
        "the relay starts"
    );
    for Prepared { config, sink } in prepared {
        info!(
            subscription = config.name,
            order = config.policy.order.as_str(),
            filter = config.filter_in_words(),
            sink = sink.describe(),
            "configured"
        );
    }
}

fn source(config: &Config) -> String {
    config.file.as_ref().map_or_else(|| "environment".to_owned(), |file| file.display().to_string())
}

fn health_in_words(health: Option<SocketAddr>) -> String {
    health.map_or_else(|| "off".to_owned(), |address| format!("http://{address}/readyz"))
}
