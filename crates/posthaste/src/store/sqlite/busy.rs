//! Writing with one writer at a time: transactions that lock at once, and patience with whoever is writing.

use std::ops::{Deref, DerefMut};
use std::time::Duration;

use sqlx::pool::{MaybePoolConnection, PoolConnection};
use sqlx::{Connection, SqlSafeStr, Sqlite, SqliteConnection, Transaction};
use tokio::sync::MutexGuard;

use crate::error::{Error, Result};

use super::SqliteStore;

/// Runs an attempt until it does not meet a busy database. Every attempt is one transaction (or one read), and a busy
/// one has changed nothing.
macro_rules! patiently {
    ($attempt:expr) => {{
        let mut pause = $crate::store::sqlite::busy::Pause::default();
        loop {
            match $attempt.await {
                Err($crate::error::Error::Conflict { doing, source }) => pause.wait(doing, &source).await,
                done => break done,
            }
        }
    }};
}

/// The same where somebody waits for an answer: whoever asks or migrates is told that the database is locked, where a
/// worker would go on trying.
macro_rules! for_a_while {
    ($attempt:expr) => {{
        let mut pause = $crate::store::sqlite::busy::Pause::default();
        let begun = std::time::Instant::now();
        loop {
            match $attempt.await {
                Err($crate::error::Error::Conflict { doing, source })
                    if begun.elapsed() < $crate::store::sqlite::busy::A_WHILE =>
                {
                    pause.wait(doing, &source).await
                }
                done => break done,
            }
        }
    }};
}

/// How long somebody who waits for an answer is kept waiting, at least; a single attempt may take the busy timeout.
pub(super) const A_WHILE: Duration = Duration::from_secs(10);

/// The pauses between attempts: SQLite has already waited for its busy timeout, so these are short.
#[derive(Debug, Default)]
pub(super) struct Pause {
    attempts: u32,
}

impl Pause {
    pub(super) async fn wait(&mut self, doing: &'static str, source: &sqlx::Error) {
        self.attempts = self.attempts.saturating_add(1);
        tracing::debug!(doing, attempts = self.attempts, %source, "the database is busy; trying again");
        let longest = u64::from(self.attempts.min(50)) * 2;
        tokio::time::sleep(Duration::from_millis(fastrand::u64(1..=longest))).await;
    }
}

/// A write transaction of ours. Dropped without a commit, it changes nothing.
#[derive(Debug)]
pub(super) struct Write<'s> {
    tx: Transaction<'static, Sqlite>,
    _turn: MutexGuard<'s, ()>,
}

impl Write<'_> {
    pub(super) async fn commit(self, doing: &'static str) -> Result<()> {
        self.tx.commit().await.map_err(Error::database(doing))
    }
}

impl Deref for Write<'_> {
    type Target = SqliteConnection;

    fn deref(&self) -> &SqliteConnection {
        &self.tx
    }
}

impl DerefMut for Write<'_> {
    fn deref_mut(&mut self) -> &mut SqliteConnection {
        &mut self.tx
    }
}

impl SqliteStore {
    /// Begins a write transaction. IMMEDIATE: it waits for the lock here; a transaction that read first and wants to
    /// write later fails at once if anybody wrote in between, and no timeout helps.
    pub(super) async fn begin(&self, doing: &'static str) -> Result<Write<'_>> {
        let turn = self.turns.lock().await;
        let conn = self.whole_connection().await.map_err(Error::database(doing))?;
        let begun = Transaction::begin(
            MaybePoolConnection::PoolConnection(conn),
            Some("BEGIN IMMEDIATE".into_sql_str()),
        );
        Ok(Write { tx: begun.await.map_err(Error::database(doing))?, _turn: turn })
    }

    /// A full disk makes SQLite end the transaction by itself. The driver does not notice: it rolls back what is no longer there,
    /// is refused, and takes the connection to be in a transaction for ever. Such a one is closed.
    async fn whole_connection(&self) -> sqlx::Result<PoolConnection<Sqlite>> {
        loop {
            let conn = self.pool.acquire().await?;
            if !conn.is_in_transaction() {
                return Ok(conn);
            }
            tracing::debug!("a transaction was ended by SQLite; connecting anew");
            drop(conn.detach());
        }
    }
}
