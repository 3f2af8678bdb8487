//! Rows about the network between the relays and PostgreSQL.

use std::sync::Arc;
use std::time::Duration;

use posthaste_testkit::{Gate, PgBouncer, PoolMode};

use super::server::at_port;
use crate::finding::{Finding, Result};
use crate::relay::Plan;
use crate::stage::Stage;
use crate::trial::Trial;

/// A trial whose relays reach their server through a gate; the writers do not.
async fn behind_a_gate(stage: &Stage) -> Result<(Trial, Arc<Gate>)> {
    let mut trial = Trial::prepare(stage, Plan::default()).await?;
    let server = port_of(&trial.writer_url)?;
    let gate = Gate::before(server).await;
    trial.relay_url = at_port(&trial.writer_url, server, gate.port());
    Ok((trial, gate))
}

fn port_of(url: &str) -> Result<u16> {
    let (_, rest) = url.rsplit_once(':').ok_or("no port")?;
    Ok(rest.split('/').next().unwrap_or_default().parse()?)
}

/// Nothing comes through and nobody is told: for one relay of two, for all, and for connections that nobody knows any more.
pub(crate) async fn silence(stage: &Stage) -> Result<Vec<Finding>> {
    Ok(vec![one_cut_off(stage).await?, all_cut_off(stage).await?, connections_forgotten(stage).await?])
}

async fn one_cut_off(stage: &Stage) -> Result<Finding> {
    let seconds = stage.size(8, 60);
    let (mut trial, gate) = behind_a_gate(stage).await?;
    trial.start_relays(1)?;
    let (cut, direct) = (trial.relay_url.clone(), trial.writer_url.clone());
    trial.relay_url = direct;
    trial.start_relays(1)?;
    trial.relay_url = cut;
    trial.until_delivering().await?;
    trial.start_writers(2, crate::writer::Habits::default()).await?;
    tokio::time::sleep(Duration::from_secs(1)).await;
    gate.fall_silent();
    let takeover = trial.until_delivering().await?;
    tokio::time::sleep(Duration::from_secs(seconds)).await;
    gate.speak_again();
    // The other one leaves, so it has to be the one that was cut off.
    trial.relays[1].terminate().await?;
    trial.relays.truncate(1);
    let recovery = trial.until_delivering().await?;
    let finding = trial.finding("one relay is cut off in silence", trial.plan.duplicates_of(1)).await?;
    let finding = finding.told("the other one delivers everything after", format!("{takeover:.1?}"));
    Ok(finding.how(format!("a black hole for {seconds} s, lease {:?}", trial.plan.lease)).recovery(recovery))
}

async fn all_cut_off(stage: &Stage) -> Result<Finding> {
    let seconds = stage.size(8, 60);
    let (mut trial, gate) = behind_a_gate(stage).await?;
    trial.begin().await?;
    tokio::time::sleep(Duration::from_secs(1)).await;
    gate.fall_silent();
    tokio::time::sleep(Duration::from_secs(seconds)).await;
    gate.speak_again();
    let recovery = trial.until_delivering().await?;
    let finding = trial.finding("all relays are cut off in silence", trial.plan.duplicates_of(2)).await?;
    Ok(finding.how(format!("a black hole for {seconds} s")).recovery(recovery))
}

/// As a firewall does that was restarted.
async fn connections_forgotten(stage: &Stage) -> Result<Finding> {
    let times = stage.size(1, 5);
    let (mut trial, gate) = behind_a_gate(stage).await?;
    let mut slowest = Duration::ZERO;
    trial.begin().await?;
    for _ in 0..times {
        tokio::time::sleep(Duration::from_secs(1)).await;
        gate.abandon_connections();
        slowest = slowest.max(trial.until_delivering().await?);
    }
    let finding =
        trial.finding("connections that nobody knows any more", trial.plan.duplicates_of(2 * times)).await?;
    Ok(finding
        .how(format!("old ones swallow everything, new ones are served; {times} times"))
        .recovery(slowest))
}

/// Connections that break in every other way.
pub(crate) async fn broken(stage: &Stage) -> Result<Vec<Finding>> {
    let times = stage.size(3, 20);
    let (mut trial, gate) = behind_a_gate(stage).await?;
    trial.begin().await?;
    for _ in 0..times {
        let pause = || tokio::time::sleep(Duration::from_millis(300 + fastrand::u64(..300)));
        gate.reset_connections();
        pause().await;
        gate.close_towards_clients();
        pause().await;
        gate.break_off_answers_after(fastrand::usize(1..4000));
        pause().await;
        gate.drop_answers(fastrand::u64(2..20));
        pause().await;
        gate.let_answers_through();
        gate.delay(Duration::from_millis(30), Duration::from_millis(30));
        pause().await;
        gate.delay(Duration::ZERO, Duration::ZERO);
    }
    let recovery = trial.until_delivering().await?;
    // Each kind may hit both relays.
    let finding = trial.finding("connections that break", trial.plan.duplicates_of(2 * 5 * times)).await?;
    let how =
        format!("reset, half closed, broken off in an answer, answers dropped, delayed; {times} times each");
    Ok(vec![finding.how(how).recovery(recovery)])
}

/// Statements of one worker run on any connection, and nobody hears notifications.
pub(crate) async fn pooler(stage: &Stage) -> Result<Vec<Finding>> {
    let (fault, seconds, size) = ("a pooler in transaction mode", stage.size(5, 60), 4);
    let plan = Plan { database: "prepared_statements = false".to_owned(), ..Plan::default() };
    let mut trial = Trial::prepare(stage, plan).await?;
    let pooler = match PgBouncer::before(&trial.writer_url, PoolMode::Transaction, size).await {
        Err(reason) => return Ok(vec![Finding::new(fault).skipped(&reason)]),
        Ok(pooler) => pooler,
    };
    trial.relay_url = pooler.url();
    trial.begin().await?;
    tokio::time::sleep(Duration::from_secs(seconds)).await;
    pooler.kill();
    pooler.bring_back().await?;
    let recovery = trial.until_delivering().await?;
    let finding = trial.finding(fault, trial.plan.duplicates_of(2)).await?;
    let how =
        format!("PgBouncer with {size} connections for 2 relays, {seconds} s, then killed and started again");
    Ok(vec![finding.how(how).recovery(recovery)])
}
