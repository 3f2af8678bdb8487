//! Rows about clocks. The database's clock decides about leases and due times, and the application's about nothing; so what is
//! moved here is the database's, under the same application: a function of its own takes the place of `clock_timestamp()`. The
//! clock of SQLite is that of the process, which a library moves.

use std::time::Duration;

use posthaste_testkit::TestDatabase;
use sqlx::{AssertSqlSafe, ConnectOptions, Executor, PgPool};

use crate::finding::{Finding, Result};
use crate::relay::Plan;
use crate::stage::Stage;
use crate::trial::Trial;

const HOUR: i32 = 3_600;

/// Every session looks for `clock_timestamp()` here first.
const CLOCK: &str = "create schema clock;
    create table clock.moved (seconds integer not null);
    insert into clock.moved values (0);
    create function clock.clock_timestamp() returns timestamptz language sql volatile as
      'select pg_catalog.clock_timestamp() + (select seconds from clock.moved) * interval ''1 second''';";

/// An hour ahead, an hour behind, and steps while relays deliver.
pub(crate) async fn steps(stage: &Stage) -> Result<Vec<Finding>> {
    let mut findings = Vec::new();
    for (fault, seconds) in [("an hour ahead", HOUR), ("an hour behind", -HOUR)] {
        findings.push(apart(stage, fault, seconds).await?);
    }
    findings.push(stepping(stage).await?);
    findings.push(super::sqlite::clock_steps(stage).await?);
    Ok(findings)
}

/// The clocks differ all the time; relays are killed, so that leases must run out at their time.
async fn apart(stage: &Stage, fault: &str, seconds: i32) -> Result<Finding> {
    let (kills, mut slowest) = (stage.size(2, 10), Duration::ZERO);
    let mut trial = prepare(stage, seconds).await?;
    trial.begin().await?;
    let shown = shown_in_leases(&trial.pool).await?;
    for kill in 0..kills {
        let victim = kill % trial.relays.len();
        trial.relays[victim].kill()?;
        slowest = slowest.max(trial.until_delivering().await?);
        trial.relays[victim] = trial.new_relay()?;
    }
    let finding =
        trial.finding(&format!("the database's clock is {fault}"), trial.plan.duplicates_of(kills)).await?;
    let how = format!("kill -9 of a relay {kills} times, lease {:?}", trial.plan.lease);
    let moved = (shown - f64::from(seconds)).abs() < 60.0;
    Ok(finding.how(how).recovery(slowest).fact("leases end, seconds from now", format!("{shown:.0}"), moved))
}

/// Ten minutes back, as a wrong clock is put right, and forward again: then every lease seems to have run out.
async fn stepping(stage: &Stage) -> Result<Finding> {
    let (rounds, mut slowest) = (stage.size(2, 10), Duration::ZERO);
    let mut trial = prepare(stage, 0).await?;
    trial.begin().await?;
    for _ in 0..rounds {
        for seconds in [-600, 0] {
            move_to(&trial.pool, seconds).await?;
            slowest = slowest.max(trial.until_delivering().await?);
            tokio::time::sleep(Duration::from_millis(fastrand::u64(300..900))).await;
        }
    }
    // Forward, both relays may lose all they hold.
    let allowed = trial.plan.duplicates_of(2 * rounds);
    let finding = trial.finding("the database's clock steps 10 min back and forward", allowed).await?;
    Ok(finding.how(format!("{rounds} times each, 2 relays deliver meanwhile")).recovery(slowest))
}

async fn prepare(stage: &Stage, seconds: i32) -> Result<Trial> {
    let empty = TestDatabase::empty_on(&stage.servers[0]).await;
    empty.pool.execute(CLOCK).await?;
    let name = empty.options.get_database().ok_or("no name")?;
    let path = format!("alter database {name} set search_path = clock, pg_catalog, public");
    empty.pool.execute(AssertSqlSafe(path)).await?;
    move_to(&empty.pool, seconds).await?;
    // Connections that were made before know nothing of it.
    let url = empty.options.to_url_lossy();
    empty.pool.close().await;
    let pool = PgPool::connect(url.as_ref()).await?;
    posthaste::Posthaste::postgres(pool).migrate().await?;
    Trial::in_database(stage, url.as_ref(), Plan::default()).await
}

async fn move_to(pool: &PgPool, seconds: i32) -> Result<()> {
    sqlx::query("update clock.moved set seconds = $1").bind(seconds).execute(pool).await?;
    Ok(())
}

/// How far from now the leases end: the control that the clock was moved for those who hold them.
async fn shown_in_leases(pool: &PgPool) -> Result<f64> {
    let sql = "select extract(epoch from max(locked_until) - pg_catalog.clock_timestamp())::float8 from posthaste.lanes";
    Ok(sqlx::query_scalar::<_, Option<f64>>(sql).fetch_one(pool).await?.unwrap_or(0.0))
}
