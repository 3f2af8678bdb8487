//! Trials whose receiver is a broker.

use std::sync::Arc;
use std::time::Duration;

use posthaste_testkit::Gate;

use crate::broker::Broker;
use crate::finding::{Finding, Result};
use crate::log;
use crate::relay::Plan;
use crate::rows::outage::with_attempts;
use crate::stage::Stage;
use crate::trial::Trial;
use crate::writer::Habits;

/// One answer out of so many is lost: a page has one or two, a new connection three.
const EVERY: u64 = 12;

/// What a broker does with a message that it has already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Copies {
    Kept,
    Dropped,
}

/// It is killed while both relays deliver, stays away for a moment, and comes back with what it has on disk.
pub(super) async fn killed<B: Broker + 'static>(
    stage: &Stage,
    name: &str,
    kills: usize,
    starting: impl Future<Output = Result<B>>,
) -> Result<Finding> {
    let fault = format!("kill -9 of {name}");
    let broker = match starting.await {
        Ok(broker) => Arc::new(broker),
        Err(reason) => return Ok(Finding::new(&fault).skipped(&reason.to_string())),
    };
    let mut trial = prepare(stage, broker.clone(), broker.port()).await?;
    trial.begin().await?;
    let mut slowest = Duration::ZERO;
    for _ in 0..kills {
        tokio::time::sleep(Duration::from_millis(1_000 + fastrand::u64(..2_000))).await;
        broker.kill();
        tokio::time::sleep(Duration::from_millis(fastrand::u64(..1_000))).await;
        broker.bring_back().await;
        slowest = slowest.max(trial.until_delivering().await?);
    }
    let finding = trial.finding(&fault, trial.plan.duplicates_of(kills)).await?;
    let finding = with_attempts(finding, &trial).await?;
    Ok(finding.how(format!("{kills} times, 2 relays, {}", broker.name())).recovery(slowest))
}

/// The broker has what it was sent, but its confirmation is swallowed on the way and the connection breaks.
pub(super) async fn unheard<B: Broker + 'static>(
    stage: &Stage,
    name: &str,
    copies: Copies,
    starting: impl Future<Output = Result<B>>,
) -> Result<Finding> {
    let (fault, seconds) = (format!("acknowledgements of {name} are lost"), stage.size(4, 60));
    let broker = match starting.await {
        Ok(broker) => Arc::new(broker),
        Err(reason) => return Ok(Finding::new(&fault).skipped(&reason.to_string())),
    };
    let gate = Gate::before(broker.port()).await;
    let mut trial = prepare(stage, broker.clone(), gate.port()).await?;
    trial.start_relays(2)?;
    trial.until_delivering().await?;
    // Few: after every lost answer a relay waits a moment, then asks with one event whether the receiver is there.
    trial.start_writers(2, Habits { pause: Duration::from_millis(60), ..Habits::default() }).await?;
    gate.drop_answers(EVERY);
    tokio::time::sleep(Duration::from_secs(seconds)).await;
    gate.let_answers_through();
    let recovery = trial.until_delivering().await?;
    let dropped = gate.answers_dropped();
    let allowed = match copies {
        Copies::Dropped => 0,
        Copies::Kept => trial.plan.duplicates_of(usize::try_from(dropped)?),
    };
    let finding = with_attempts(trial.finding(&fault, allowed).await?, &trial).await?;
    Ok(finding
        .fact("answers lost", dropped, dropped > 0)
        .how(format!("every {EVERY}th answer is swallowed for {seconds} s, 2 relays, {}", broker.name()))
        .recovery(recovery))
}

/// Relays reach the broker through this port.
async fn prepare(stage: &Stage, broker: Arc<dyn Broker>, port: u16) -> Result<Trial> {
    let plan = Plan { sink: Some(broker.sink(port)), ..Plan::default() };
    let mut trial = Trial::prepare(stage, plan).await?;
    log::note_attempts(&trial.pool).await?;
    trial.broker = Some(broker);
    Ok(trial)
}
