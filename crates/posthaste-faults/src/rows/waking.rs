//! Rows about wake-ups that do not come.

use std::time::Duration;

use crate::finding::{Finding, Result};
use crate::relay::Plan;
use crate::stage::Stage;
use crate::trial::Trial;
use crate::writer::Habits;

/// Producers that never ring, and sessions that listen and are ended.
pub(crate) async fn lost(stage: &Stage) -> Result<Vec<Finding>> {
    Ok(vec![silent_producers(stage).await?, ended_listeners(stage).await?])
}

async fn silent_producers(stage: &Stage) -> Result<Finding> {
    let seconds = stage.size(5, 60);
    let mut trial = Trial::prepare(stage, Plan::default()).await?;
    trial.start_relays(2)?;
    // Rare transactions: each one finds the relays asleep.
    let habits =
        Habits { connections: 1, pause: Duration::from_millis(400), rings: false, ..Habits::default() };
    trial.start_writers(2, habits).await?;
    tokio::time::sleep(Duration::from_secs(seconds)).await;
    let poll = trial.plan.poll;
    let finding = trial.finding("producers that wake nobody", 0).await?;
    let slow = trial.slowest_but_one_percent().await?;
    let finding =
        finding.told("99 of 100 events arrive within", format!("{slow:.1?}, polling every {poll:?}"));
    Ok(finding.how(format!("posthaste.ring = off for {seconds} s")))
}

async fn ended_listeners(stage: &Stage) -> Result<Finding> {
    let (times, mut ended) = (stage.size(4, 30), 0_usize);
    let mut trial = Trial::prepare(stage, Plan::default()).await?;
    trial.begin().await?;
    for _ in 0..times {
        let sessions: i64 = sqlx::query_scalar(
            "select count(*) filter (where pg_terminate_backend(pid)) from pg_stat_activity \
             where datname = current_database() and pid <> pg_backend_pid() and query ilike 'listen %'",
        )
        .fetch_one(&trial.pool)
        .await?;
        ended += usize::try_from(sessions).unwrap_or(0);
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    let recovery = trial.until_delivering().await?;
    let finding = trial.finding("sessions that listen are ended", 0).await?;
    let finding = finding.fact("sessions ended", ended, ended > 0);
    Ok(finding.how(format!("once a second, {times} times")).recovery(recovery))
}
