//! Log lines, always on stderr: stdout belongs to data, which for the relay may be events.

use std::io::IsTerminal;

use tracing_subscriber::Layer;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use crate::config::{LogForm, RelayConfig};
use crate::failure::Failure;

/// For commands that speak to people in sentences of their own: only if `RUST_LOG` asks for it, as in
/// `posthaste=debug`. Plain targets instead of the env-filter, whose regular expressions cost seconds of first build.
pub(crate) fn on_demand() -> Result<(), Failure> {
    if let Some(targets) = wanted()? {
        write(LogForm::Pretty, targets);
    }
    Ok(())
}

/// For the relay, as configured; `RUST_LOG` wins over the configured filter.
pub(crate) fn as_configured(relay: &RelayConfig) -> Result<LogForm, Failure> {
    let usual = if std::io::stderr().is_terminal() { LogForm::Pretty } else { LogForm::Json };
    let form = relay.log.unwrap_or(usual);
    write(form, wanted()?.unwrap_or_else(|| relay.log_filter.clone()));
    Ok(form)
}

fn wanted() -> Result<Option<Targets>, Failure> {
    let Ok(text) = std::env::var("RUST_LOG") else { return Ok(None) };
    let problem = |error| {
        Failure::configuration(format!("RUST_LOG={text} is not understood: {error}; write for example info"))
    };
    text.parse().map(Some).map_err(problem)
}

/// RabbitMQ's client logs what the broker returns, body included; payloads do not belong in logs.
const WITH_PAYLOADS: &str = "lapin::returned_messages";

fn write(form: LogForm, targets: Targets) {
    let targets = targets.with_target(WITH_PAYLOADS, LevelFilter::OFF);
    let registry = tracing_subscriber::registry();
    let lines = tracing_subscriber::fmt::layer().with_writer(std::io::stderr);
    match form {
        LogForm::Json => registry.with(lines.json().flatten_event(true).with_filter(targets)).init(),
        LogForm::Pretty => {
            let colours = std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
            registry.with(lines.with_ansi(colours).with_target(false).with_filter(targets)).init();
        }
    }
}
