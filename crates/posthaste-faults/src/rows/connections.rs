//! Rows about the connections to PostgreSQL.

use std::time::{Duration, Instant};

use crate::finding::{Finding, Result};
use crate::relay::Plan;
use crate::stage::Stage;
use crate::trial::Trial;

/// As an administrator does who wants them gone.
pub(crate) async fn ended(stage: &Stage) -> Result<Vec<Finding>> {
    let (times, mut ended) = (stage.size(6, 60), 0_usize);
    let mut trial = Trial::prepare(stage, Plan::default()).await?;
    trial.begin().await?;
    for _ in 0..times {
        let next = Instant::now() + Duration::from_secs(1);
        let sessions: i64 = sqlx::query_scalar(
            "select count(*) filter (where pg_terminate_backend(pid)) from pg_stat_activity \
             where datname = current_database() and pid <> pg_backend_pid()",
        )
        .fetch_one(&trial.pool)
        .await?;
        ended += usize::try_from(sessions).unwrap_or(0);
        tokio::time::sleep(next.saturating_duration_since(Instant::now())).await;
    }
    let recovery = trial.until_delivering().await?;
    // Both relays, each time.
    let finding =
        trial.finding("all sessions ended by the server", trial.plan.duplicates_of(2 * times)).await?;
    let finding = finding.fact("sessions ended", ended, ended >= times);
    Ok(vec![
        finding.how(format!("pg_terminate_backend of all, once a second for {times} s")).recovery(recovery),
    ])
}
