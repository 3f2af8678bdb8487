//! The way to the server: one connection, made on demand, with a deadline on everything.
//!
//! No pool: appends take turns anyway, and a pool would hide behind its own timeout why it cannot connect.

use std::future::Future;
use std::time::Duration;

use sqlx::postgres::PgConnectOptions;
use sqlx::{AssertSqlSafe, Connection, PgConnection};
use tokio::sync::{Mutex, MutexGuard};
use tokio::time::{Instant, timeout, timeout_at};

/// The connection, if there is one, for one of us at a time.
pub(super) type Turn<'l> = MutexGuard<'l, Option<PgConnection>>;

#[derive(Debug)]
pub(super) struct Link {
    options: PgConnectOptions,
    limit: Duration,
    kept: Mutex<Option<PgConnection>>,
}

impl Link {
    pub(super) fn new(options: PgConnectOptions, limit: Duration) -> Self {
        Self { options, limit, kept: Mutex::default() }
    }

    /// Our own turn on the connection; `None` if it does not come in time, which is no sign of the server's absence.
    pub(super) async fn turn(&self, until: Instant) -> Option<Turn<'_>> {
        timeout_at(until, self.kept.lock()).await.ok()
    }

    /// Runs on the connection. One that failed is not used again: after a fail-over it may lead to a server that is
    /// read-only for ever.
    pub(super) async fn run<T>(
        &self,
        turn: &mut Turn<'_>,
        work: impl AsyncFnOnce(&mut PgConnection) -> Result<T, sqlx::Error>,
    ) -> Result<T, sqlx::Error> {
        self.in_time(async {
            let mut connection = match alive(turn.take()).await {
                Some(connection) => connection,
                None => self.connect().await?,
            };
            let done = work(&mut connection).await?;
            **turn = Some(connection);
            Ok(done)
        })
        .await
    }

    /// Runs on a connection of its own, so that logging in is tried too.
    pub(super) async fn run_anew<T>(
        &self,
        work: impl AsyncFnOnce(&mut PgConnection) -> Result<T, sqlx::Error>,
    ) -> Result<T, sqlx::Error> {
        self.in_time(async {
            let mut connection = self.connect().await?;
            let done = work(&mut connection).await?;
            connection.close().await?;
            Ok(done)
        })
        .await
    }

    /// The limits are for the server: a client that is gone must not keep others from their turn.
    async fn connect(&self) -> Result<PgConnection, sqlx::Error> {
        let mut connection = PgConnection::connect_with(&self.options).await?;
        let millis = self.limit.as_millis();
        let limits =
            format!("set statement_timeout = {millis}; set idle_in_transaction_session_timeout = {millis}");
        sqlx::raw_sql(AssertSqlSafe(limits)).execute(&mut connection).await?;
        Ok(connection)
    }

    async fn in_time<T>(&self, work: impl Future<Output = Result<T, sqlx::Error>>) -> Result<T, sqlx::Error> {
        let sentence = || format!("no answer within {:?}", self.limit);
        let late = || sqlx::Error::Io(std::io::Error::new(std::io::ErrorKind::TimedOut, sentence()));
        timeout(self.limit, work).await.unwrap_or_else(|_| Err(late()))
    }
}

/// A connection that was idle may have been ended meanwhile; that costs a question, not a failed page.
async fn alive(kept: Option<PgConnection>) -> Option<PgConnection> {
    let mut connection = kept?;
    connection.ping().await.ok().map(|()| connection)
}
