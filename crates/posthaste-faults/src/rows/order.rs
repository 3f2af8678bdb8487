//! Rows about the order of commits: without any fault but the writers' own.

use std::time::Duration;

use crate::finding::{Finding, Result};
use crate::programs::{self, Program};
use crate::relay::Plan;
use crate::stage::Stage;
use crate::trial::Trial;
use crate::writer::Habits;

/// Two wrong readers run beside six right ones, and must be seen to lose and to reorder.
pub(crate) async fn commit_order(stage: &Stage) -> Result<Vec<Finding>> {
    let torture = Program { package: "posthaste", name: "torture", tests: &[] };
    let how = "16 writers, savepoints, rollbacks, COPY, a prepared transaction; six right readers and two wrong ones, on each \
               PostgreSQL there is";
    Ok(vec![programs::run(stage, "commits in another order", how, &[torture]).await?])
}

/// All writers fight for three keys, so that most transactions wait for another one's commit.
pub(crate) async fn hot_keys(stage: &Stage) -> Result<Vec<Finding>> {
    let (processes, seconds) = (2, stage.size(6, 60));
    let habits = Habits { connections: 8, keys: 3, pause: Duration::from_millis(4), ..Habits::default() };
    let mut trial = Trial::prepare(stage, Plan::default()).await?;
    trial.start_relays(2)?;
    trial.start_writers(processes, habits).await?;
    trial.until_delivering().await?;
    tokio::time::sleep(Duration::from_secs(seconds)).await;
    let finding = trial.finding("writers fight for few keys", 0).await?;
    Ok(vec![finding.how(format!("{processes} x 8 writers of 3 keys for {seconds} s, 2 relays"))])
}
