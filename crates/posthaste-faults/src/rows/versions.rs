//! Rows about versions: programs that are older or newer than the tables, and tables that change under load.

use std::time::Duration;

use posthaste_testkit::TestDatabase;
use sqlx::{ConnectOptions, Executor};

use crate::finding::{Finding, Result};
use crate::programs::{self, Program};
use crate::relay::Plan;
use crate::stage::Stage;
use crate::trial::Trial;

/// What stands in for a migration that this program does not know: a column more, and the next version.
const EXPAND: &str = "begin;
    alter table posthaste.events add column later text;
    update posthaste.meta set version = version + 1;
    commit";
const CONTRACT: &str = "begin;
    update posthaste.meta set version = version - 1;
    alter table posthaste.events drop column later;
    commit";

pub(crate) async fn versions(stage: &Stage) -> Result<Vec<Finding>> {
    let program = Program { package: "posthaste", name: "versions", tests: &[] };
    let how = "new program on every earlier state of the tables, old program on newer tables, PostgreSQL and SQLite: refused in \
               words, nothing lost, and delivered after `migrate`";
    let matrix = programs::run(stage, "program and tables of different versions", how, &[program]).await?;
    Ok(vec![matrix, relay_without_tables(stage).await?, under_load(stage).await?])
}

/// A relay that finds no tables ends with a sentence, and its successor delivers after `migrate`.
async fn relay_without_tables(stage: &Stage) -> Result<Finding> {
    let empty = TestDatabase::empty_on(&stage.servers[0]).await;
    let mut trial = Trial::in_database(stage, empty.options.to_url_lossy().as_ref(), Plan::default()).await?;
    let words = refusal(&mut trial).await?;
    empty.posthaste.migrate().await?;
    trial.begin().await?;
    let finding = trial.finding("a relay before `migrate`", 0).await?;
    Ok(finding.how("an empty database").fact("it says", &words, words.contains("posthaste migrate")))
}

/// Tables change while two relays and writers run: those go on; a relay that is started meanwhile refuses.
async fn under_load(stage: &Stage) -> Result<Finding> {
    let rounds = stage.size(2, 10);
    let mut trial = Trial::prepare(stage, Plan::default()).await?;
    trial.begin().await?;
    let mut words = String::new();
    for _ in 0..rounds {
        trial.pool.execute(EXPAND).await?;
        trial.until_delivering().await?;
        words = refusal(&mut trial).await?;
        trial.posthaste().migrate().await.err().ok_or("an older program migrated newer tables")?;
        trial.pool.execute(CONTRACT).await?;
        trial.posthaste().migrate().await?;
        trial.until_delivering().await?;
    }
    let finding = trial.finding("tables change under load", 0).await?;
    let finding = finding
        .how(format!("a column and a version more, and back, {rounds} times; 2 relays, 2 x 4 writers"));
    Ok(finding.fact("a relay that is started then says", &words, words.contains("use a newer posthaste")))
}

/// The last words of a relay that is not to start. It has told nobody a lie: its exit code is not that of success.
async fn refusal(trial: &mut Trial) -> Result<String> {
    let mut relay = trial.new_relay()?;
    for _ in 0..600 {
        if let Some(status) = relay.ended()? {
            let words = relay.words();
            return match status.code() {
                Some(0) | None => {
                    Err(format!("a relay that must refuse ended with {status}:\n{words}").into())
                }
                Some(_) => Ok(words.lines().last().unwrap_or_default().to_owned()),
            };
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    Err(format!("a relay that must refuse goes on:\n{}", relay.words()).into())
}
