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
    let (mut pause, mut said) = (FIRST_PAUSE, None);
    loop {
        let refusal = match look(database, with_migrations).await {
            Ok(()) => {
                if said.is_some() {
                    info!("the database answers");
                }
                return Ok(true);
            }
            Err(Failure::Coded(Code::Unavailable, sentence)) => sentence,
            Err(failure) => return Err(failure),
        };
        if said.as_ref() != Some(&refusal) {
            warn!("{refusal}; trying again");
            said = Some(refusal);
        }
        tokio::select! {
            () = tokio::time::sleep(pause) => pause = (pause * 2).min(LONGEST_PAUSE),
            () = stop.cancelled() => return Ok(false),
        }
    }
}

async fn look(database: &Database, with_migrations: bool) -> Result<(), Failure> {
    if with_migrations {
        let done = migrate(database).await?;
        info!("{}", done.in_words());
    }
    let connected: Result<(), Refusal> = database.connect().await;
    connected?;
    database.tables().await?.ready()
}
