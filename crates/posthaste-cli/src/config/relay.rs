//! `[relay]`: how the process behaves.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use posthaste::WorkerName;
use posthaste_sinks::Section;
use tracing_subscriber::filter::Targets;

use super::database::without_prefix;

/// How the relay runs.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct RelayConfig {
    /// Shown to people in leases; `None`: the host's name and the process id.
    pub(crate) name: Option<String>,
    /// How long a stop may take.
    pub(crate) grace: Duration,
    /// Where health is told; `None`: nowhere.
    pub(crate) listen: Option<Listen>,
    /// `None`: pretty on a terminal, JSON otherwise.
    pub(crate) log: Option<LogForm>,
    pub(crate) log_filter: Targets,
}

/// An address to listen on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Listen {
    pub(crate) address: SocketAddr,
    /// Somebody wrote it: not being able to listen there is a failure. The usual address may be taken, since a second
    /// relay on this machine has the same one.
    pub(crate) written: bool,
}

/// How log lines look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LogForm {
    Pretty,
    Json,
}

const USUAL_PORT: u16 = 9470;

/// What client libraries say at `info` is about themselves.
pub(crate) const USUAL_LOG_FILTER: &str = "warn,posthaste=info";

impl RelayConfig {
    pub(super) fn check(section: &Section<'_>) -> Self {
        let day = Duration::from_secs(86_400);
        let forms = [("pretty", LogForm::Pretty), ("json", LogForm::Json)];
        let relay = Self {
            name: name(section),
            grace: section.duration("grace", Duration::from_secs(1)..=day).unwrap_or(Duration::from_secs(30)),
            listen: listen(section),
            log: section.choice("log", &forms),
            log_filter: log_filter(section),
        };
        section.finish();
        relay
    }
}

fn name(section: &Section<'_>) -> Option<String> {
    let name = section.text("name")?;
    match WorkerName::parse(&name) {
        Ok(_) => Some(name),
        Err(error) => {
            section.problem("name", without_prefix(&error));
            None
        }
    }
}

fn listen(section: &Section<'_>) -> Option<Listen> {
    let usual = Listen { address: (Ipv4Addr::LOCALHOST, USUAL_PORT).into(), written: false };
    if !section.has("listen") {
        section.value("listen");
        return Some(usual);
    }
    let text = section.text("listen")?;
    if text == "off" {
        return None;
    }
    let numeric = text.replacen("localhost:", "127.0.0.1:", 1);
    match numeric.parse() {
        Ok(address) => Some(Listen { address, written: true }),
        Err(_) => {
            let sentence = "expected an address and a port, such as \"127.0.0.1:9470\", or \"off\"";
            section.problem("listen", format!("{sentence}, got {text:?}"));
            None
        }
    }
}

fn log_filter(section: &Section<'_>) -> Targets {
    let text = section.text("log_filter").unwrap_or_else(|| USUAL_LOG_FILTER.to_owned());
    text.parse().unwrap_or_else(|_| {
        let sentence = "expected a level, or levels by module, such as \"info\" or \"info,posthaste=debug\"";
        section.problem("log_filter", format!("{sentence}, got {text:?}"));
        Targets::default()
    })
}
