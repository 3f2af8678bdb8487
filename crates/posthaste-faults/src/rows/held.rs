//! Rows about transactions that stay open and have nothing to do with us.

use std::time::Duration;

use sqlx::{Connection, Executor, PgConnection};

use crate::finding::{Finding, Result};
use crate::relay::Plan;
use crate::stage::Stage;
use crate::trial::Trial;

/// One in another database, and one with a snapshot of this database; each against the same trial without it.
pub(crate) async fn open_transactions(stage: &Stage) -> Result<Vec<Finding>> {
    let seconds = stage.size(5, 60);
    let baseline = Held::Nothing.trial(stage, seconds).await?;
    let mut findings = Vec::new();
    for held in [Held::WriterElsewhere, Held::Snapshot] {
        let (finding, slow) = held.trial(stage, seconds).await?;
        let slow = format!("{slow:.1?}, without it {:.1?}", baseline.1);
        findings
            .push(finding.how(format!("open for {seconds} s")).told("99 of 100 events arrive within", slow));
    }
    Ok(findings)
}

#[derive(Clone, Copy)]
enum Held {
    Nothing,
    WriterElsewhere,
    Snapshot,
}

impl Held {
    /// The trial while it is held: new events must arrive before it is let go.
    async fn trial(self, stage: &Stage, seconds: u64) -> Result<(Finding, Duration)> {
        let mut trial = Trial::prepare(stage, Plan::default()).await?;
        let elsewhere = &stage.servers[0].url;
        let (url, statement, name) = match self {
            Self::Nothing => (elsewhere, "select", "nothing"),
            Self::WriterElsewhere => {
                (elsewhere, "begin; select pg_current_xact_id()", "an open writer in another database")
            }
            Self::Snapshot => (
                &trial.writer_url,
                "begin isolation level repeatable read; select count(*) from written",
                "a held snapshot",
            ),
        };
        let mut session = PgConnection::connect(url).await?;
        session.execute(statement).await?;
        trial.begin().await?;
        tokio::time::sleep(Duration::from_secs(seconds)).await;
        trial.until_delivering().await?;
        let finding = trial.finding(name, 0).await?;
        session.execute("select").await.map_err(|error| format!("it was not held to the end: {error}"))?;
        Ok((finding, trial.slowest_but_one_percent().await?))
    }
}
