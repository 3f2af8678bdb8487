//! Waking up: a watch on the file. It sees the commits of every process; losing it costs latency, never events.

use std::sync::Arc;
use std::time::Duration;

use sqlx::{ConnectOptions, Connection, SqliteConnection};
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;

use crate::observe::Bell;

use super::SqliteStore;

/// How often the file is looked at. `PRAGMA data_version` reads no table: it only compares a counter.
const GLANCE: Duration = Duration::from_millis(25);

/// A watch that was lost is taken up again after this long.
const PAUSE: Duration = Duration::from_secs(1);

impl SqliteStore {
    pub(crate) async fn watch_file(&self, bell: Arc<Bell>, stop: CancellationToken) {
        while !stop.is_cancelled() {
            if let Err(error) = self.watch_until_lost(&bell, &stop).await {
                bell.set_listening(false);
                tracing::warn!(%error, "cannot watch the database file; polling goes on, trying again in {PAUSE:?}");
            }
            // Whatever was missed while nobody watched is found by looking.
            bell.ring();
            tokio::select! {
                () = stop.cancelled() => {}
                () = tokio::time::sleep(PAUSE) => {}
            }
        }
        bell.set_listening(false);
    }

    /// On a connection of its own: `data_version` counts what *other* connections committed.
    async fn watch_until_lost(&self, bell: &Bell, stop: &CancellationToken) -> sqlx::Result<()> {
        let options = self.pool.connect_options().as_ref().clone().create_if_missing(false);
        let mut conn = options.disable_statement_logging().connect().await?;
        let mut seen = data_version(&mut conn).await?;
        bell.set_listening(true);
        bell.ring();
        let mut glances = tokio::time::interval(GLANCE);
        glances.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                () = stop.cancelled() => return conn.close().await,
                _ = glances.tick() => {}
            }
            let version = data_version(&mut conn).await?;
            if version != std::mem::replace(&mut seen, version) {
                bell.ring();
            }
        }
    }
}

async fn data_version(conn: &mut SqliteConnection) -> sqlx::Result<i64> {
    sqlx::query_scalar("pragma data_version").fetch_one(conn).await
}
