//! The configuration, in three types: what was written ([`Written`]), what was checked ([`Config`]), and what runs,
//! which is the business of the commands. Checking connects to nothing and reports everything that is wrong at once.

use std::path::PathBuf;

use posthaste_sinks::{Problem, Problems, Section};
use serde_json::Map;

use crate::cli::GlobalOptions;
use crate::failure::{Failure, Mistakes};
use crate::registry::{self, RegistryConfig};

mod file;
mod environment;
mod written;
mod url;
mod database;
mod inbox;
mod relay;
mod policy;
mod sink;
mod subscription;

pub(crate) use database::{Address, DatabaseConfig};
pub(crate) use inbox::{INBOX, InboxConfig};
pub(crate) use relay::{Listen, LogForm, RelayConfig, USUAL_LOG_FILTER};
pub(crate) use subscription::SubscriptionConfig;
pub(crate) use url::{is_remote, says_ssl_mode};
pub(crate) use written::{Flag, Sources, USUAL_FILE, Written};

use policy::Policy;

/// A configuration without mistakes.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Config {
    pub(crate) database: DatabaseConfig,
    pub(crate) relay: RelayConfig,
    /// By name.
    pub(crate) subscriptions: Vec<SubscriptionConfig>,
    /// Where it was written, if in a file.
    pub(crate) file: Option<PathBuf>,
}

/// Where a command looks for its configuration.
pub(crate) fn sources(global: &GlobalOptions, flags: Vec<Flag>) -> Sources {
    let url = global.database.clone();
    let database = url.map(|value| Flag { name: "--database", path: "database.url", value });
    Sources {
        file: global.config.clone(),
        variables: Sources::variables(),
        flags: database.into_iter().chain(flags).collect(),
    }
}

/// Reads and checks the configuration.
pub(crate) fn load(sources: &Sources) -> Result<Config, Failure> {
    Ok(Config::load(sources)?)
}

/// Reads and checks only where the log is: an operator must be able to look while the rest is being edited, and without
/// the secrets of the sinks.
pub(crate) fn load_database(sources: &Sources) -> Result<DatabaseConfig, Failure> {
    let problems = Problems::default();
    let written = sources.read(&problems)?;
    let empty = Map::new();
    let fields = written.table.get("database").and_then(serde_json::Value::as_object).unwrap_or(&empty);
    let section = Section::new("database", fields, &problems, &written.surroundings);
    let checked = DatabaseConfig::check(&section, &written.origins);
    let problems = problems.into_vec().into_iter().filter(|problem| problem.path.starts_with("database"));
    let problems: Vec<Problem> = problems.collect();
    checked.filter(|_| problems.is_empty()).ok_or_else(|| written.mistakes(problems).into())
}

/// Reads and checks only where the letters of consumers are: beside the log, unless something says otherwise.
pub(crate) fn load_inbox(sources: &Sources) -> Result<InboxConfig, Failure> {
    let problems = Problems::default();
    let written = sources.read(&problems)?;
    let empty = Map::new();
    let fields =
        |name: &str| written.table.get(name).and_then(serde_json::Value::as_object).unwrap_or(&empty);
    let section = |name: &str| Section::new(name, fields(name), &problems, &written.surroundings);
    let inbox = section("inbox");
    let log = || DatabaseConfig::check(&section("database"), &written.origins);
    let checked = InboxConfig::check(&inbox, &written.origins, log);
    let ours = |problem: &Problem| ["database", "inbox"].iter().any(|name| problem.path.starts_with(name));
    let problems: Vec<Problem> = problems.into_vec().into_iter().filter(ours).collect();
    checked.filter(|_| problems.is_empty()).ok_or_else(|| written.mistakes(problems).into())
}

impl Config {
    /// Everything that is wrong, or a configuration.
    pub(crate) fn load(sources: &Sources) -> Result<Self, Mistakes> {
        let problems = Problems::default();
        let written = sources.read(&problems)?;
        let checked = Self::check(&written, &problems);
        let problems = problems.into_vec();
        checked.filter(|_| problems.is_empty()).ok_or_else(|| written.mistakes(problems))
    }

    fn check(written: &Written, problems: &Problems) -> Option<Self> {
        let (root, empty) = (Section::new("", &written.table, problems, &written.surroundings), Map::new());
        let table = |name: &str| match root.has(name) {
            true => root.section(name),
            false => {
                root.value(name);
                Some(Section::new(name, &empty, problems, &written.surroundings))
            }
        };
        let database =
            table("database").and_then(|section| DatabaseConfig::check(&section, &written.origins));
        if let (Some(section), Some(database)) = (root.section("inbox"), &database) {
            InboxConfig::check(&section, &written.origins, || Some(database.clone()));
        }
        let relay = table("relay").map(|section| RelayConfig::check(&section));
        let usual = table("defaults").map(|section| defaults(&section)).unwrap_or_default();
        let registry = root.section("registry").map(|section| registry::validate(&section));
        let subscriptions =
            table("subscriptions").map(|section| subscriptions(&section, &usual, registry.as_ref()));
        root.finish();
        Some(Self {
            database: database?,
            relay: relay?,
            subscriptions: subscriptions?,
            file: written.file.clone(),
        })
    }
}

fn defaults(section: &Section<'_>) -> Policy {
    let policy = Policy::check(section, &Policy::default());
    section.finish();
    policy
}

fn subscriptions(
    section: &Section<'_>,
    usual: &Policy,
    registry: Option<&RegistryConfig>,
) -> Vec<SubscriptionConfig> {
    let checked = |name: &str| SubscriptionConfig::check(name, &section.section(name)?, usual, registry);
    section.names().filter_map(checked).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_configuration_can_be_printed_without_its_passwords() {
        let url = |value: &str| Flag { name: "--database", path: "database.url", value: value.to_owned() };
        let variables = [("POSTHASTE_SUBSCRIPTIONS__A__SINK__TYPE".to_owned(), "stdout".to_owned())];
        let sources = Sources {
            file: None,
            variables: variables.into(),
            flags: vec![url("postgres://u:hunter2@localhost/d?password=hunter2")],
        };
        let config = Config::load(&sources).expect("no mistakes");
        assert!(!format!("{config:?}").contains("hunter2"));
        assert_eq!(config.database.shown(), "postgres://u:***@localhost/d?password=***");
        assert_eq!(config.subscriptions[0].settings().max_attempts, 5);
    }
}
