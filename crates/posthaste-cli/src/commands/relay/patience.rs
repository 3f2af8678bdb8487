//! Waiting for a database that is not there yet. What waiting cannot cure ends the relay with a sentence.

use std::time::Duration;

use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::commands::migrate::migrate;
use crate::database::{Database, Refusal};
use crate::failure::{Code, Failure};

const FIRST_PAUSE: Duration = Duration::from_millis(250);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// Waits until the database answers and its tables are right. `false`: somebody wants to stop.
pub(crate) async fn wait_for(
    database: &Database,
    with_migrations: bool,
    stop: &CancellationToken,
) -> Result<bool, Failure> {
    if let Some(warning) = database.warning() {
        warn!("{warning}");
    }
    // Whatever is awaited: a stop does not wait for a database that does not answer. A migration is a transaction.
    let Some(ready) = stop.run_until_cancelled(insist(database, with_migrations)).await else {
        return Ok(false);
    };
    ready.map(|()| true)
}

async fn insist(database: &Database, with_migrations: bool) -> Result<(), Failure> {
    let (mut pause, mut said) = (FIRST_PAUSE, None);
    loop {
        let refusal = match look(database, with_migrations).await {
            Ok(()) => {
                if said.is_some() {
                    info!("the database answers");
                }
                return Ok(());
            }
            Err(Failure::Coded(Code::Unavailable, sentence)) => sentence,
            Err(failure) => return Err(failure),
        };
        if said.as_ref() != Some(&refusal) {
            warn!("{refusal}; trying again");
            said = Some(refusal);
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

async fn look(database: &Database, with_migrations: bool) -> Result<(), Failure> {
    if with_migrations {
        let done = migrate(database).await?;
        info!("{}", done.in_words());
        if let Some(advice) = done.advice() {
            info!("{advice}");
        }
    }
    let connected: Result<(), Refusal> = database.connect().await;
    connected?;
    database.tables().await?.ready()
}
