//! Rows about relay processes: killed, stopped, restarted.

use std::time::{Duration, Instant};

use crate::finding::{Finding, Result};
use crate::relay::Plan;
use crate::stage::Stage;
use crate::trial::Trial;

/// Each is killed while it delivers, and another takes its place.
pub(crate) async fn kill(stage: &Stage) -> Result<Vec<Finding>> {
    let (kills, mut slowest) = (stage.size(6, 100), Duration::ZERO);
    let mut trial = Trial::prepare(stage, Plan::default()).await?;
    trial.begin().await?;
    for kill in 0..kills {
        tokio::time::sleep(Duration::from_millis(200 + fastrand::u64(..600))).await;
        let victim = kill % trial.relays.len();
        trial.relays[victim].kill()?;
        slowest = slowest.max(trial.until_delivering().await?);
        trial.relays[victim] = trial.new_relay()?;
    }
    let finding = trial.finding("kill -9 of a relay", trial.plan.duplicates_of(kills)).await?;
    Ok(vec![finding.how(format!("{kills} times, 2 relays, lease {:?}", trial.plan.lease)).recovery(slowest)])
}

/// It is stopped with batches in hand, others take over, and then it goes on as if nothing had been.
pub(crate) async fn stop(stage: &Stage) -> Result<Vec<Finding>> {
    let (stops, mut slowest) = (stage.size(3, 30), Duration::ZERO);
    let mut trial = Trial::prepare(stage, Plan { lease: Duration::from_secs(1), ..Plan::default() }).await?;
    trial.begin().await?;
    for stop in 0..stops {
        tokio::time::sleep(Duration::from_millis(200 + fastrand::u64(..300))).await;
        let (zombie, began) = (stop % trial.relays.len(), Instant::now());
        trial.relays[zombie].pause()?;
        slowest = slowest.max(trial.until_delivering().await?);
        tokio::time::sleep((trial.plan.lease * 3).saturating_sub(began.elapsed())).await;
        trial.relays[zombie].go_on()?;
    }
    let lease = trial.plan.lease;
    let finding =
        trial.finding("a relay stands still for three leases", trial.plan.duplicates_of(stops)).await?;
    Ok(vec![
        finding
            .how(format!("SIGSTOP and SIGCONT, {stops} times, 2 relays, lease {lease:?}"))
            .recovery(slowest),
    ])
}

/// Nothing is repeated: whoever stops finishes what it has in hand.
pub(crate) async fn rolling(stage: &Stage) -> Result<Vec<Finding>> {
    let (restarts, mut slowest) = (stage.size(6, 50), Duration::ZERO);
    let mut trial = Trial::prepare(stage, Plan::default()).await?;
    trial.begin().await?;
    let mut unclean = 0;
    for restart in 0..restarts {
        tokio::time::sleep(Duration::from_millis(200 + fastrand::u64(..300))).await;
        let (leaving, began) = (restart % trial.relays.len(), Instant::now());
        let status = trial.relays[leaving].terminate().await?;
        slowest = slowest.max(began.elapsed());
        unclean += usize::from(!status.success());
        trial.relays[leaving] = trial.new_relay()?;
    }
    let finding = trial.finding("rolling restarts", 0).await?;
    let finding = finding.fact("restarts that were not clean", unclean, unclean == 0);
    let finding = finding.told("slowest stop", format!("{slowest:.1?}"));
    Ok(vec![finding.how(format!("SIGTERM, {restarts} times, 2 relays"))])
}
