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

/// And it logs every frame before it sends it, the one with the password too: nobody may ask for that.
const WITH_PASSWORDS: &str = "lapin";

/// What was asked for, without what must not be told.
fn discreet(wanted: &Targets) -> Targets {
    let capped = |(target, level): (&str, LevelFilter)| {
        let level = if target.starts_with(WITH_PASSWORDS) { level.min(LevelFilter::INFO) } else { level };
        (target.to_owned(), level)
    };
    let usual = wanted.default_level().unwrap_or(LevelFilter::OFF);
    let targets: Targets = [(WITH_PASSWORDS, usual)].into_iter().chain(wanted.iter()).map(capped).collect();
    targets.with_default(usual).with_target(WITH_PAYLOADS, LevelFilter::OFF)
}

fn write(form: LogForm, targets: Targets) {
    let targets = discreet(&targets);
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

#[cfg(test)]
mod tests {
    use tracing_subscriber::filter::LevelFilter as Level;

    use super::*;

    #[test]
    fn frames_with_passwords_and_returned_payloads_are_never_logged() {
        for wanted in ["trace", "debug,lapin=trace", "lapin::io_loop=trace,info"] {
            let targets = discreet(&wanted.parse().expect("a filter"));
            assert!(!targets.would_enable("lapin::io_loop", &tracing::Level::TRACE), "{wanted}");
            assert!(!targets.would_enable("lapin::io_loop", &tracing::Level::DEBUG), "{wanted}");
            assert!(targets.would_enable("lapin::io_loop", &tracing::Level::WARN), "{wanted}");
            assert!(!targets.would_enable(WITH_PAYLOADS, &tracing::Level::ERROR), "{wanted}");
        }
        let usual = discreet(&"warn,posthaste=info".parse().expect("a filter"));
        assert_eq!(usual.default_level(), Some(Level::WARN));
        assert!(usual.would_enable("posthaste", &tracing::Level::INFO));
        assert!(!usual.would_enable("lapin", &tracing::Level::INFO));
    }
}
