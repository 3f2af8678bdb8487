//! Rows about the PostgreSQL server as a whole: it crashes, a replica takes its place, it is dumped and restored, its disk is
//! full.

use std::collections::HashSet;
use std::time::Duration;

use posthaste::EventId;
use posthaste_testkit::{Gate, PrivatePostgres, Server, Tmpfs};

use crate::finding::{Finding, Result};
use crate::relay::Plan;
use crate::stage::Stage;
use crate::trial::{Trial, connect};
use crate::writer::{self, Habits};

/// A trial on a server of its own.
async fn trial_on(stage: &Stage, server: &PrivatePostgres) -> Result<Trial> {
    let server = Server { name: "private", url: server.url() };
    Trial::prepare_on(stage, &server, Plan::default()).await
}

/// Without notice, with transactions of everybody under way. Claims that did not wait for the disk are undone.
pub(crate) async fn crash(stage: &Stage) -> Result<Vec<Finding>> {
    let (fault, crashes, mut slowest) = ("PostgreSQL crashes", stage.size(3, 10), Duration::ZERO);
    let server = match PrivatePostgres::start(&[]).await {
        Err(reason) => return Ok(vec![Finding::new(fault).skipped(&reason)]),
        Ok(server) => server,
    };
    let mut trial = trial_on(stage, &server).await?;
    trial.begin().await?;
    for _ in 0..crashes {
        tokio::time::sleep(Duration::from_millis(500 + fastrand::u64(..1000))).await;
        server.crash().await;
        tokio::time::sleep(Duration::from_millis(300)).await;
        server.start_again().await?;
        slowest = slowest.max(trial.until_delivering().await?);
    }
    // Both relays, each time.
    let finding = trial.finding(fault, trial.plan.duplicates_of(2 * crashes)).await?;
    Ok(vec![finding.how(format!("SIGQUIT of the server and a new start, {crashes} times")).recovery(slowest)])
}

/// The replica lacks what its primary committed last, and takes its place; the relays go on with whoever is there. What
/// PostgreSQL itself lost is not ours to deliver, but nothing that commits afterwards may be taken for something old.
pub(crate) async fn promotion(stage: &Stage) -> Result<Vec<Finding>> {
    let fault = "an asynchronous replica is promoted";
    let primary = match PrivatePostgres::start(&[]).await {
        Err(reason) => return Ok(vec![Finding::new(fault).skipped(&reason)]),
        Ok(server) => server,
    };
    let mut trial = trial_on(stage, &primary).await?;
    let replica = primary.replica().await?;
    // The address that does not change.
    let gate = Gate::before(primary.port()).await;
    let (old, address) = (trial.writer_url.clone(), at_port(&trial.writer_url, primary.port(), gate.port()));
    trial.move_to(&address)?;
    trial.begin().await?;
    tokio::time::sleep(Duration::from_secs(stage.size(2, 20))).await;
    replica.cut_replication().await;
    tokio::time::sleep(Duration::from_secs(stage.size(2, 10))).await;
    gate.shut().await;
    primary.crash().await;
    replica.promote().await?;
    gate.lead_to(replica.port());
    gate.open().await;
    let recovery = trial.until_delivering().await?;
    tokio::time::sleep(Duration::from_secs(stage.size(2, 20))).await;
    trial.stop_writers().await?;
    trial.until_all_arrived().await?;
    let survived: HashSet<EventId> =
        writer::committed(&trial.pool).await?.into_iter().map(|event| event.id).collect();
    primary.start_again().await?;
    let before = writer::committed(&connect(&old)?).await?;
    let gone: HashSet<EventId> =
        before.into_iter().map(|event| event.id).filter(|id| !survived.contains(id)).collect();
    // Sent by the old primary's word, and unknown to the new one.
    let sent = trial.forget(|delivery| gone.contains(&delivery.accepted.id));
    let finding = trial.finding(fault, trial.plan.duplicates_of(2)).await?;
    let finding = finding
        .told("committed and lost by PostgreSQL itself", gone.len())
        .told("of these sent before", sent)
        .fact("the replica was behind", gone.len(), !gone.is_empty());
    Ok(vec![
        finding
            .how("replication cut while writers go on, primary crashed, replica promoted, same address")
            .recovery(recovery),
    ])
}

/// Into a new cluster, whose transaction ids begin anew.
pub(crate) async fn restore(stage: &Stage) -> Result<Vec<Finding>> {
    let (fault, waiting) = ("dump and restore with events that wait", stage.size(2_000, 10_000));
    let (from, to) = match (PrivatePostgres::start(&[]).await, PrivatePostgres::start(&[]).await) {
        (Ok(from), Ok(to)) => (from, to),
        (Err(reason), _) | (_, Err(reason)) => return Ok(vec![Finding::new(fault).skipped(&reason)]),
    };
    let mut trial = trial_on(stage, &from).await?;
    trial.begin().await?;
    tokio::time::sleep(Duration::from_secs(2)).await;
    for mut relay in trial.relays.drain(..) {
        relay.terminate().await?;
    }
    trial.start_writers(2, Habits { pause: Duration::from_millis(2), ..Habits::default() }).await?;
    let pending = loop {
        let pending = writer::committed(&trial.pool).await?.len().saturating_sub(trial.collector.len());
        if pending >= waiting {
            break pending;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    };
    trial.stop_writers().await?;
    let name = database_of(&trial.writer_url);
    from.dump_to(&to, &name).await?;
    trial.move_to(&to.url_of(&name))?;
    from.stop().await;
    trial.posthaste().admin().rebase().await?;
    trial.begin().await?;
    tokio::time::sleep(Duration::from_secs(2)).await;
    let finding = trial.finding(fault, 0).await?.told("waited at the dump", pending);
    Ok(vec![finding.how("pg_dump, pg_restore into a new cluster, rebase, relays started")])
}

/// No room for what writers and relays want to write; then there is room again.
pub(crate) async fn disk_full(stage: &Stage) -> Result<Vec<Finding>> {
    Ok(vec![disk_of_postgres_full(stage).await?, super::sqlite::disk_full(stage).await?])
}

async fn disk_of_postgres_full(stage: &Stage) -> Result<Finding> {
    let (fault, times, mut slowest) = ("the disk of PostgreSQL is full", stage.size(1, 5), Duration::ZERO);
    let skipped = |reason: &str| Ok(Finding::new(fault).skipped(reason));
    let disk = match Tmpfs::mount(400) {
        Err(reason) => return skipped(&reason),
        Ok(disk) => disk,
    };
    let settings = ["max_wal_size=64MB", "min_wal_size=32MB"];
    let server = match PrivatePostgres::setup().settings(&settings).data_in(disk.path()).start().await {
        Err(reason) => return skipped(&reason),
        Ok(server) => server,
    };
    let (mut trial, mut down) = (trial_on(stage, &server).await?, 0);
    trial.begin().await?;
    for _ in 0..times {
        tokio::time::sleep(Duration::from_secs(1)).await;
        disk.fill();
        tokio::time::sleep(Duration::from_secs(stage.size(4, 10))).await;
        disk.make_room();
        // Without room for its log of changes it ends itself, and somebody has to start it.
        if !server.is_running() {
            down += 1;
            server.stop().await;
            server.start_again().await?;
        }
        slowest = slowest.max(trial.until_delivering().await?);
    }
    let finding = trial.finding(fault, trial.plan.duplicates_of(2 * times)).await?;
    let finding = finding.told("the server ended itself", format!("{down} of {times} times"));
    Ok(finding.how(format!("a file system of 400 MiB filled, {times} times")).recovery(slowest))
}

/// The same URL with another port.
pub(crate) fn at_port(url: &str, from: u16, to: u16) -> String {
    url.replacen(&format!(":{from}/"), &format!(":{to}/"), 1)
}

/// The name of the database in it.
pub(crate) fn database_of(url: &str) -> String {
    let name = url.rsplit('/').next().unwrap_or_default();
    name.split('?').next().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_of_a_url_are_found() {
        let url = "postgres://postgres@127.0.0.1:5432/test_1?sslmode=prefer";
        assert_eq!(database_of(url), "test_1");
        assert_eq!(at_port(url, 5432, 6432), "postgres://postgres@127.0.0.1:6432/test_1?sslmode=prefer");
    }
}
