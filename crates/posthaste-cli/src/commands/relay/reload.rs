//! SIGHUP: the file is read again, and only what changed is restarted. A file with mistakes changes nothing.

use tracing::{error, info, warn};

use super::configured;
use super::fleet::{Fleet, Prepared, Started};
use crate::config::{Config, Sources, SubscriptionConfig};

/// What is different between what runs and what is wanted.
#[derive(Debug, Default, PartialEq)]
struct Changes {
    added: Vec<SubscriptionConfig>,
    changed: Vec<SubscriptionConfig>,
    /// Wanted, but their workers ended by themselves.
    ended: Vec<SubscriptionConfig>,
    removed: Vec<String>,
}

impl Changes {
    fn between(running: &[SubscriptionConfig], ended: &[String], wanted: &[SubscriptionConfig]) -> Self {
        let mut changes = Self::default();
        for config in wanted {
            match running.iter().find(|old| old.name == config.name) {
                None => changes.added.push(config.clone()),
                Some(_) if ended.contains(&config.name) => changes.ended.push(config.clone()),
                Some(old) if old != config => changes.changed.push(config.clone()),
                Some(_) => {}
            }
        }
        let gone = |old: &&SubscriptionConfig| !wanted.iter().any(|config| config.name == old.name);
        changes.removed = running.iter().filter(gone).map(|old| old.name.clone()).collect();
        changes
    }

    fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// Reads the configuration again and acts on it.
pub(crate) async fn reload(fleet: &mut Fleet, config: &mut Config, sources: &Sources) {
    let wanted = match configured(sources) {
        Ok(wanted) => wanted,
        Err(failure) => {
            failure.lines().iter().for_each(|line| error!("{line}"));
            return error!("the configuration was not taken over; going on with the old one");
        }
    };
    take_login(fleet, config, &wanted);
    say_what_waits(config, &wanted);
    let changes = Changes::between(&fleet.configs(), &fleet.ended(), &wanted.subscriptions);
    match changes.is_empty() {
        true => info!("the configuration was read again; no subscription changed"),
        false => apply(fleet, changes).await,
    }
    config.subscriptions = wanted.subscriptions;
}

/// The new sinks are opened before anything is stopped, so that a failure leaves everything as it was.
async fn apply(fleet: &mut Fleet, changes: Changes) {
    let Changes { added, changed, ended, removed } = changes;
    let prepared = match fleet.prepare(&[added, changed.clone(), ended.clone()].concat()) {
        Ok(prepared) => prepared,
        Err(failure) => {
            failure.lines().iter().for_each(|line| error!("{line}"));
            return error!("the configuration was not taken over; going on with the old one");
        }
    };
    let (changed, ended) = (names(&changed), names(&ended));
    let leaving = [removed.clone(), changed.clone(), ended.clone()].concat();
    if !leaving.is_empty() {
        info!(subscriptions = leaving.join(", "), "stopping: what they have under way is finished first");
    }
    fleet.stop_some(&leaving).await;
    for subscription in &removed {
        info!(subscription, "stopped: it is no longer configured; its progress stays in the database");
    }
    for prepared in prepared {
        let done = match &prepared.config.name {
            name if changed.contains(name) => "restarted with its new settings",
            name if ended.contains(name) => "declared and started again",
            _ => "added",
        };
        start(fleet, prepared, done).await;
    }
}

fn names(configs: &[SubscriptionConfig]) -> Vec<String> {
    configs.iter().map(|config| config.name.clone()).collect()
}

async fn start(fleet: &mut Fleet, prepared: Prepared, done: &str) {
    let (subscription, sink) = (prepared.config.name.clone(), prepared.sink.describe());
    match fleet.start(vec![prepared]).await {
        Ok(Started::All) => info!(subscription, sink, "{done}"),
        Ok(Started::Stopped) => {}
        Err(failure) => failure.lines().iter().for_each(|line| error!(subscription, "not started: {line}")),
    }
}

/// Passwords are changed while relays run.
fn take_login(fleet: &mut Fleet, config: &mut Config, wanted: &Config) {
    if config.database != wanted.database && fleet.takes_login_of(&wanted.database) {
        config.database = wanted.database.clone();
        info!("new connections to the database are made with the new login; open ones stay");
    }
}

/// What belongs to the process as a whole.
fn say_what_waits(old: &Config, new: &Config) {
    for (table, same) in [("database", old.database == new.database), ("relay", old.relay == new.relay)] {
        if !same {
            warn!("[{table}] changed; this takes effect when the relay is restarted");
        }
    }
}
