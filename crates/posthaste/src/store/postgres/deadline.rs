//! How long PostgreSQL may take. A network that swallows everything must look like a database that is away, not like one that
//! is thinking: sqlx waits for an answer for ever, and has no setting for TCP keepalive.
//!
//! The pool is the application's own, so everything is decided where a connection is borrowed. What was given up may still
//! happen on the server, now or when the network is back: nothing here says that it did not. Tokens do.

use std::collections::HashMap;
use std::ops::{Deref, DerefMut};
use std::pin::pin;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use sqlx::pool::PoolConnection;
use sqlx::postgres::PgConnection;
use sqlx::{Connection, Postgres, Transaction};
use tokio::time::timeout;

use crate::error::{Error, Result};
use crate::lease::Reader;

use super::PgStore;

/// No question of a worker waits longer for its answer, as a rule: see [`Patience`].
const ANSWER_WITHIN: Duration = Duration::from_secs(10);

/// Also with a short lease: a busy server is not away.
const SHORTEST: Duration = Duration::from_secs(2);

/// What is asked in vain again and again gets this long at last.
const LONGEST: Duration = Duration::from_secs(120);

/// A connection is made, or found to be alive, within this time. TCP repeats its first packet after 1, 3, 7 and 15 s: whoever
/// waits longer than this hears of a network that is back later than somebody who begins anew.
pub(super) const CONNECT_WITHIN: Duration = Duration::from_secs(5);

/// A connection that is given back must answer within this time, or it is closed.
const RETURN_WITHIN: Duration = Duration::from_secs(5);

/// A worker that fell silent in a transaction holds its locks no longer than this. A server notices by itself after two hours.
/// In one message with the BEGIN: it costs no round trip.
pub(super) const BEGIN: &str = "begin; set local idle_in_transaction_session_timeout = '15s'";

/// A connection borrowed from the pool. However its use ends, also if the borrower was cut off in the middle of an answer, it is
/// back in the pool or closed soon after: sqlx by itself would wait for the rest of the answer without an end, and the
/// pool would have a connection less.
#[derive(Debug)]
pub(crate) struct Lent {
    conn: PoolConnection<Postgres>,
    /// When the pool gave it away.
    pub(super) since: Instant,
}

impl Lent {
    fn new(conn: PoolConnection<Postgres>) -> Self {
        Self { conn, since: Instant::now() }
    }

    /// Begins a transaction that does not outlive its worker for long.
    pub(super) async fn begin(&mut self, doing: &'static str) -> Result<Transaction<'_, Postgres>> {
        self.conn.begin_with(BEGIN).await.map_err(Error::database(doing))
    }
}

impl Deref for Lent {
    type Target = PgConnection;

    fn deref(&self) -> &PgConnection {
        &self.conn
    }
}

impl DerefMut for Lent {
    fn deref_mut(&mut self) -> &mut PgConnection {
        &mut self.conn
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        // Hears the rest of an answer, rolls back what was not committed, and asks whether the connection is alive. Dropped
        // before its end, it closes the connection and leaves its place in the pool to another one.
        let returning = self.conn.return_to_pool();
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move {
                if timeout(RETURN_WITHIN, returning).await.is_err() {
                    tracing::debug!("a connection to PostgreSQL fell silent and was closed");
                }
            });
        }
    }
}

/// A kind of question: what overruns is remembered of each.
#[derive(Debug, Clone, Copy)]
pub(super) struct Question {
    doing: &'static str,
    subscription: i64,
    within: Duration,
}

impl Question {
    pub(super) fn new(doing: &'static str) -> Self {
        Self { doing, subscription: 0, within: ANSWER_WITHIN }
    }

    #[cfg(test)]
    pub(super) fn within(self, within: Duration) -> Self {
        Self { within, ..self }
    }

    /// About a subscription: the answer must come while its lease can still be renewed.
    pub(super) fn about(doing: &'static str, reader: &Reader) -> Self {
        let within = (reader.settings.lease / 3).clamp(SHORTEST, ANSWER_WITHIN);
        Self { doing, subscription: reader.id, within }
    }
}

/// Which questions overran lately. The next one of the kind may take twice as long: an answer that needs more than its time,
/// such as a large page over a slow network, would otherwise be asked for in vain for ever. While PostgreSQL is away, new
/// questions get no connection, and this grows no more.
#[derive(Debug, Default)]
pub(super) struct Patience {
    overran: Mutex<HashMap<(&'static str, i64), u32>>,
}

impl Patience {
    fn with(&self, question: &Question) -> Duration {
        let times = self.lock().get(&(question.doing, question.subscription)).copied().unwrap_or(0);
        question.within.saturating_mul(1 << times.min(16)).min(LONGEST)
    }

    fn overran(&self, question: &Question) {
        *self.lock().entry((question.doing, question.subscription)).or_default() += 1;
    }

    fn answered(&self, question: &Question) {
        self.lock().remove(&(question.doing, question.subscription));
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<(&'static str, i64), u32>> {
        self.overran.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl PgStore {
    /// Borrows a connection.
    pub(crate) async fn lend(&self, doing: &'static str) -> Result<Lent> {
        if let Some(conn) = self.memory.kept.take() {
            return Ok(conn);
        }
        match timeout(CONNECT_WITHIN, self.pool.acquire()).await {
            Ok(given) => given.map(Lent::new).map_err(Error::database(doing)),
            Err(_) => {
                self.try_idle_connections();
                Err(Error::NoConnection { doing, within: CONNECT_WITHIN })
            }
        }
    }

    /// If one connection fell silent, others may have as well: all are tried at once, not one by each of the next questions.
    fn try_idle_connections(&self) {
        let idle: Vec<Lent> = std::iter::from_fn(|| self.pool.try_acquire().map(Lent::new)).collect();
        tracing::debug!(connections = idle.len(), "PostgreSQL fell silent; trying what lies in the pool");
    }

    /// An answer, or that it is late.
    pub(super) async fn within<T>(
        &self,
        question: Question,
        answer: impl Future<Output = Result<T>>,
    ) -> Result<T> {
        let within = self.memory.patience.with(&question);
        match timeout(within, answer).await {
            Ok(Ok(answer)) => {
                self.memory.patience.answered(&question);
                Ok(answer)
            }
            Ok(Err(error)) => Err(error),
            Err(_) => {
                self.try_idle_connections();
                self.memory.patience.overran(&question);
                Err(Error::Late { doing: question.doing, within })
            }
        }
    }

    /// Whether the next question would get a connection.
    pub(crate) async fn answers(&self) -> Result<()> {
        let doing = "check the connection";
        let asking = async { self.lend(doing).await?.ping().await.map_err(Error::database(doing)) };
        self.within(Question::new(doing), asking).await
    }

    /// For what may take minutes: an answer, however late, while PostgreSQL is there at all.
    pub(super) async fn patiently<T>(
        &self,
        doing: &'static str,
        answer: impl Future<Output = Result<T>>,
    ) -> Result<T> {
        let mut answer = pin!(answer);
        let gone = async {
            loop {
                tokio::time::sleep(ANSWER_WITHIN).await;
                if !self.is_there().await && !self.is_there().await {
                    return;
                }
            }
        };
        tokio::select! {
            biased;
            answer = &mut answer => answer,
            () = gone => Err(Error::Late { doing, within: ANSWER_WITHIN + 2 * CONNECT_WITHIN }),
        }
    }

    /// Whether it can be reached, by a connection that has nothing to do with the pool: that may be used up.
    async fn is_there(&self) -> bool {
        let options = self.pool.connect_options();
        match timeout(CONNECT_WITHIN, PgConnection::connect_with(&options)).await {
            Ok(Ok(conn)) => {
                // Politely, if it can be done at once. Otherwise by dropping it.
                drop(timeout(CONNECT_WITHIN, conn.close()).await);
                true
            }
            // A refusal is an answer.
            Ok(Err(error)) => error.as_database_error().is_some(),
            Err(_) => false,
        }
    }
}
