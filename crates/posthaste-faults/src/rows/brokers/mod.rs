//! The row about brokers that are killed again and again. What they have is read with their own clients, behind the feature
//! `brokers`: those take a while to build.
#![cfg_attr(not(feature = "brokers"), allow(dead_code, reason = "nobody reads them"))]

#[cfg(feature = "brokers")]
mod nats;
#[cfg(feature = "brokers")]
mod rabbitmq;
#[cfg(feature = "brokers")]
mod redis;

use std::sync::Arc;
use std::time::Duration;

use crate::broker::Broker;
use crate::finding::{Finding, Result};
use crate::log;
use crate::relay::Plan;
use crate::rows::outage::with_attempts;
use crate::stage::Stage;
use crate::trial::Trial;

/// Each broker in turn.
#[cfg(feature = "brokers")]
pub(crate) async fn killed(stage: &Stage) -> Result<Vec<Finding>> {
    let often = stage.size(2, 12);
    Ok(vec![
        killed_or_missing(stage, "NATS", often, nats::Nats::start()).await?,
        killed_or_missing(stage, "Redis", often, redis::Redis::start()).await?,
        // It takes seconds to start.
        killed_or_missing(stage, "RabbitMQ", stage.size(1, 10), rabbitmq::Rabbitmq::start()).await?,
    ])
}

/// Nobody could read them.
#[cfg(not(feature = "brokers"))]
pub(crate) async fn killed(_stage: &Stage) -> Result<Vec<Finding>> {
    Ok(vec![Finding::new("kill -9 of a broker").skipped("built without the feature `brokers`")])
}

async fn killed_or_missing<B: Broker + 'static>(
    stage: &Stage,
    name: &str,
    kills: usize,
    starting: impl Future<Output = Result<B>>,
) -> Result<Finding> {
    let fault = format!("kill -9 of {name}");
    match starting.await {
        Ok(broker) => kill(stage, &fault, kills, Arc::new(broker)).await,
        Err(reason) => Ok(Finding::new(&fault).skipped(&reason.to_string())),
    }
}

/// It is killed while both relays deliver, stays away for a moment, and comes back with what it has on disk.
async fn kill(stage: &Stage, fault: &str, kills: usize, broker: Arc<dyn Broker>) -> Result<Finding> {
    let plan = Plan { sink: Some(broker.sink()), ..Plan::default() };
    let mut trial = Trial::prepare(stage, plan).await?;
    log::note_attempts(&trial.pool).await?;
    trial.broker = Some(broker.clone());
    trial.begin().await?;
    let mut slowest = Duration::ZERO;
    for _ in 0..kills {
        tokio::time::sleep(Duration::from_millis(1_000 + fastrand::u64(..2_000))).await;
        broker.kill();
        tokio::time::sleep(Duration::from_millis(fastrand::u64(..1_000))).await;
        broker.bring_back().await;
        slowest = slowest.max(trial.until_delivering().await?);
    }
    let finding = trial.finding(fault, trial.plan.duplicates_of(kills)).await?;
    let finding = with_attempts(finding, &trial).await?;
    Ok(finding.how(format!("{kills} times, 2 relays, {}", broker.name())).recovery(slowest))
}
