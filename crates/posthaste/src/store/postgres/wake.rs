//! Waking up: the listener and the sign. A ring is a hint; losing every one costs latency, never events.

use std::io::ErrorKind;
use std::sync::Arc;
use std::time::Duration;

use sqlx::postgres::PgListener;
use tokio_util::sync::CancellationToken;

use crate::error::{Error, Result};
use crate::observe::Bell;
use crate::store::Sign;

use super::PgStore;
use super::deadline::CONNECT_WITHIN;

/// How often to look whether the log has grown: a ring is lost with a producer that rolls back, and comes late from one
/// that takes its time, while others relied on it.
const WATCH_EVERY: Duration = Duration::from_millis(500);

/// A listening connection that died silently is noticed after this long.
const PATIENCE: Duration = Duration::from_secs(5);

/// Nobody waits longer for the next attempt to listen.
const LONGEST_WAIT: Duration = Duration::from_secs(5);

impl PgStore {
    pub(crate) async fn listen(&self, bell: Arc<Bell>, stop: CancellationToken) {
        if !self.prepared {
            // A pooler takes a LISTEN and gives the connection to others: rings would go to whoever has it then.
            tracing::debug!("no wake-ups without prepared statements; polling does the work");
            return stop.cancelled().await;
        }
        let mut wait = Duration::from_millis(100);
        while !stop.is_cancelled() {
            if let Err(error) = self.listen_until_lost(&bell, &stop, &mut wait).await {
                tracing::warn!(%error, "cannot listen for wake-ups; polling goes on, trying again in {wait:?}");
            }
            bell.set_listening(false);
            // Whatever was missed while nobody listened is found by looking.
            bell.ring();
            tokio::select! {
                () = stop.cancelled() => {}
                () = tokio::time::sleep(wait) => {}
            }
            wait = (wait * 2).min(LONGEST_WAIT);
        }
    }

    async fn listen_until_lost(
        &self,
        bell: &Bell,
        stop: &CancellationToken,
        wait: &mut Duration,
    ) -> sqlx::Result<()> {
        let mut listener = in_time(CONNECT_WITHIN, self.listener()).await?;
        // The LISTEN has committed; only now may a worker rely on rings, and what came before is found by looking.
        bell.set_listening(true);
        bell.ring();
        *wait = Duration::from_millis(100);
        let mut last_seq = 0;
        loop {
            tokio::select! {
                () = stop.cancelled() => return Ok(()),
                rung = listener.try_recv() => match rung? {
                    Some(_) => bell.hear(),
                    None => return Ok(()),
                },
                () = tokio::time::sleep(WATCH_EVERY) => {
                    let before = std::mem::replace(&mut last_seq, self.last_seq(&mut listener).await?);
                    if before != last_seq {
                        bell.hear();
                    }
                }
            }
        }
    }

    /// On a connection beside the pool, made as the pool makes its own. One that fell silent cannot be taken out of a listener:
    /// sqlx says UNLISTEN on it and waits for the answer until TCP gives up, and the pool would miss it for that long.
    async fn listener(&self) -> sqlx::Result<PgListener> {
        let options = self.pool.options().clone().max_connections(1).min_connections(0);
        let options = options.idle_timeout(None).max_lifetime(None);
        let own = options.connect_lazy_with((*self.pool.connect_options()).clone());
        let mut listener = PgListener::connect_with(&own).await?;
        listener.eager_reconnect(false);
        listener.listen(self.schema.as_str()).await?;
        Ok(listener)
    }

    pub(crate) async fn raise_sign(&self, lasting: Duration) -> Result<Sign> {
        let doing = "put up the sign";
        let millis = i64::try_from(lasting.as_millis()).unwrap_or(i64::MAX);
        self.query(self.sql.put_up_sign.clone())
            .bind(millis)
            .execute(&mut *self.lend(doing).await?)
            .await
            .map_err(Error::database(doing))?;
        // Drawn after the sign is up: whoever read "no sign" has a lower xid, because producers read it after
        // their insert.
        self.newest_xid().await
    }

    /// An xid above those of all who have enqueued something by now.
    pub(crate) async fn newest_xid(&self) -> Result<Sign> {
        let before: String = self
            .query_scalar(self.sql.newest_xid.clone())
            .fetch_one(&mut *self.lend("draw an xid").await?)
            .await
            .map_err(Error::database("draw an xid"))?;
        Ok(Sign { before: Some(before) })
    }

    async fn last_seq(&self, listener: &mut PgListener) -> sqlx::Result<i64> {
        in_time(PATIENCE, sqlx::query_scalar(self.sql.last_seq.clone()).fetch_one(listener)).await
    }

    pub(crate) async fn producers_ended(&self, sign: &Sign) -> Result<bool> {
        let Some(before) = &sign.before else { return Ok(true) };
        self.query_scalar(self.sql.all_ended.clone())
            .bind(before)
            .fetch_one(&mut *self.lend("look for running producers").await?)
            .await
            .map_err(Error::database("look for running producers"))
    }
}

async fn in_time<T>(within: Duration, answer: impl Future<Output = sqlx::Result<T>>) -> sqlx::Result<T> {
    let late =
        || std::io::Error::new(ErrorKind::TimedOut, format!("PostgreSQL did not answer within {within:?}"));
    tokio::time::timeout(within, answer).await.unwrap_or_else(|_| Err(late().into()))
}
