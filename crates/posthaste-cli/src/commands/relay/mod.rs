//! `posthaste relay`: a worker for every subscription, until somebody stops it.

use std::sync::Arc;

use tracing::{error, info};

use crate::cli::{GlobalOptions, RelayOptions};
use crate::config::{self, Config, LogForm, Sources};
use crate::database::Database;
use crate::failure::Failure;
use crate::logs;
use crate::signals::Signals;

mod tally;
mod watched;
mod board;
mod health;
mod fleet;
mod patience;
mod reload;
mod report;

use board::Board;
use fleet::{Fleet, Started};

pub(crate) use watched::{CHECK_WITHIN, route};

pub(crate) async fn run(global: &GlobalOptions, options: &RelayOptions) -> Result<(), Failure> {
    let signals = Signals::listen_and_reload()?;
    let sources = config::sources(global, options.flags(global));
    let config = configured(&sources)?;
    let form = logs::as_configured(&config.relay)?;
    let relaying = relay(config, &sources, options.migrate, form, &signals);
    let done = tokio::select! {
        done = relaying => done,
        () = signals.stop_at_once.cancelled() => Err(Failure::Interrupted),
    };
    done.map_err(|failure| in_the_log(failure, form))
}

/// A configuration that a relay can run: it has work to do.
fn configured(sources: &Sources) -> Result<Config, Failure> {
    let config = config::load(sources)?;
    match config.subscriptions.is_empty() {
        true => Err(Failure::configuration(
            "no subscription is configured, so there is nothing to deliver; add a table [subscriptions.NAME] with a \
             sink to the configuration (`posthaste init` writes an example)",
        )),
        false => Ok(config),
    }
}

/// Who collects JSON lines wants the last words among them.
fn in_the_log(failure: Failure, form: LogForm) -> Failure {
    match (form, failure.code()) {
        (LogForm::Json, Some(code)) => {
            failure.lines().iter().for_each(|line| error!("{line}"));
            Failure::Said(code)
        }
        _ => failure,
    }
}

async fn relay(
    config: Config,
    sources: &Sources,
    migrate: bool,
    form: LogForm,
    signals: &Signals,
) -> Result<(), Failure> {
    let database = Database::prepare(&config.database)?;
    let board = Arc::new(Board::new(database.clone()));
    let mut fleet = Fleet::new(&config.relay, database.clone(), board.clone(), signals.stop.child_token());
    let prepared = fleet.prepare(&config.subscriptions)?;
    let health = health::serve(config.relay.listen, board).await?;
    report::start(&config, &fleet, &prepared, health, form);
    if !patience::wait_for(&database, migrate, &signals.stop).await? {
        return Ok(());
    }
    let started = fleet.start(prepared).await;
    if let Ok(Started::All) = started {
        report::ready(&fleet, form);
        signals.stop.run_until_cancelled(deliver(&mut fleet, config, sources, signals)).await;
    }
    if started.is_ok() {
        info!("stopping: nothing new is started, what is under way is finished");
    }
    // Also if one could not be started: the others may have begun to deliver.
    let stopped = fleet.stop().await;
    started.and(stopped)
}

/// Until it is dropped: the workers deliver by themselves, and whoever wants the configuration read again is heard.
async fn deliver(fleet: &mut Fleet, mut config: Config, sources: &Sources, signals: &Signals) {
    loop {
        signals.reload.notified().await;
        reload::reload(fleet, &mut config, sources).await;
    }
}
