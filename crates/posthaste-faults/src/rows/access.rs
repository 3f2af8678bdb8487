//! Rows about who may connect to PostgreSQL, and who it really is.

use std::fs;
use std::time::Duration;

use posthaste_testkit::brokers::certificate::{Certificate, Flaw};
use posthaste_testkit::{PrivatePostgres, Server};
use sqlx::PgPool;

use super::server::database_of;
use crate::finding::{Finding, Result};
use crate::relay::Plan;
use crate::stage::Stage;
use crate::trial::Trial;
use crate::writer::Habits;

/// A password that is changed under running relays, and servers that cannot prove who they are.
pub(crate) async fn refused(stage: &Stage) -> Result<Vec<Finding>> {
    Ok(vec![password(stage).await?, certificates(stage).await?])
}

async fn trial_on(stage: &Stage, server: &PrivatePostgres) -> Result<Trial> {
    let server = Server { name: "private", url: server.url() };
    Trial::prepare_on(stage, &server, Plan::default()).await
}

/// So that everybody has to connect anew.
async fn end_sessions(pool: &PgPool) -> Result<()> {
    sqlx::query(
        "select pg_terminate_backend(pid) from pg_stat_activity \
         where datname = current_database() and pid <> pg_backend_pid()",
    )
    .execute(pool)
    .await?;
    Ok(())
}

async fn password(stage: &Stage) -> Result<Finding> {
    let (fault, times, mut slowest) = ("the password is changed", stage.size(2, 10), Duration::ZERO);
    let server = match PrivatePostgres::setup().password("first").start().await {
        Err(reason) => return Ok(Finding::new(fault).skipped(&reason)),
        Ok(server) => server,
    };
    let mut trial = trial_on(stage, &server).await?;
    let database = database_of(&trial.writer_url);
    trial.begin().await?;
    for time in 0..times {
        tokio::time::sleep(Duration::from_millis(500)).await;
        server.change_password(&format!("next{time}")).await?;
        end_sessions(&trial.pool).await?;
        tokio::time::sleep(Duration::from_millis(500)).await;
        trial.stop_writers().await?;
        trial.move_to(&server.url_of(&database))?;
        for relay in &trial.relays {
            relay.log_in(&trial.relay_url)?;
        }
        slowest = slowest.max(trial.until_delivering().await?);
        trial.start_writers(2, Habits::default()).await?;
    }
    let finding = trial.finding(fault, trial.plan.duplicates_of(2 * times)).await?;
    let how =
        format!("{times} times: changed, all sessions ended, then the file with the URL changed and SIGHUP");
    Ok(finding.how(how).recovery(slowest))
}

async fn certificates(stage: &Stage) -> Result<Finding> {
    let fault = "certificates that prove nothing";
    let (folder, flawed) = (tempfile::tempdir()?, tempfile::tempdir()?);
    let started = match Certificate::make(folder.path()) {
        Err(reason) => Err(reason),
        Ok(good) => PrivatePostgres::setup().tls(&good).start().await.map(|server| (good, server)),
    };
    let (good, server) = match started {
        Err(reason) => return Ok(Finding::new(fault).skipped(&reason)),
        Ok(started) => started,
    };
    let mut trial = trial_on(stage, &server).await?;
    let trusted = folder.path().join("trusted.pem");
    fs::copy(&good.ca_file, &trusted)?;
    let url = server.url_of(&database_of(&trial.writer_url));
    trial.relay_url = format!("{url}?sslmode=verify-full&sslrootcert={}", trusted.display());
    trial.begin().await?;
    let (mut through, mut slowest) = (0, Duration::ZERO);
    for flaw in [Flaw::Expired, Flaw::WrongHost, Flaw::SelfSigned] {
        let bad = Certificate::flawed(flaw, flawed.path())?;
        fs::copy(&bad.ca_file, &trusted)?;
        server.change_certificate(&bad).await?;
        end_sessions(&trial.pool).await?;
        // What was in hand has landed, or was given up with its lease.
        tokio::time::sleep(trial.plan.lease + Duration::from_secs(1)).await;
        let before = trial.collector.len();
        tokio::time::sleep(Duration::from_secs(stage.size(2, 10))).await;
        through += trial.collector.len() - before;
        fs::copy(&good.ca_file, &trusted)?;
        server.change_certificate(&good).await?;
        slowest = slowest.max(trial.until_delivering().await?);
    }
    let finding = trial.finding(fault, trial.plan.duplicates_of(2 * 3)).await?;
    let finding = finding.fact("events that came through a bad handshake", through, through == 0);
    Ok(finding.how("expired, of another host, signed by itself; then a good one again").recovery(slowest))
}
