//! Rows about the writers' processes.

use std::time::Duration;

use crate::finding::{Finding, Result};
use crate::relay::Plan;
use crate::stage::Stage;
use crate::trial::Trial;
use crate::writer::{Habits, Writer};

/// Killed in the middle of their transactions, also between COMMIT and its answer.
pub(crate) async fn killed(stage: &Stage) -> Result<Vec<Finding>> {
    let kills = stage.size(10, 200);
    let mut trial = Trial::prepare(stage, Plan::default()).await?;
    trial.begin().await?;
    for _ in 0..kills {
        tokio::time::sleep(Duration::from_millis(100 + fastrand::u64(..300))).await;
        let victim = trial.writers.remove(0);
        victim.kill().await?;
        trial.writers.push(Writer::start(&trial.writer_url, Habits::default()).await?);
    }
    let finding = trial.finding("kill -9 of writers", 0).await?;
    Ok(vec![finding.how(format!("{kills} times, 2 processes with 4 connections each"))])
}
