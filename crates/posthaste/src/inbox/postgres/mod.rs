//! The guard on PostgreSQL: the mark is a row in the consumer's own transaction, so effect and mark commit together.

use std::sync::Arc;
use std::time::Duration;

use sqlx::{PgConnection, PgPool, Postgres, Transaction};

use crate::error::{Error, Result};
use crate::id::SchemaName;

use super::chunks::in_chunks;
use super::letter::Letter;
use super::letters::DeadLetters;
use super::names::{Consumer, KEEP, check_id, keep_of, micros};
use super::once::{GivenUp, Mark, Once, OnceError};

mod statements;
mod migrate;
mod letters;
#[cfg(test)]
mod tests;

use statements::Statements;

const SCHEMA: &str = "posthaste_inbox";

/// When to come again after a lock that was not given in time.
const SOON: Duration = Duration::from_secs(1);

/// The guard of one consumer in PostgreSQL 13 or newer. The database need not have a log of Posthaste. Cheap to clone.
#[derive(Debug, Clone)]
pub struct PostgresInbox {
    tables: PgTables,
    consumer: Consumer,
    keep: Duration,
}

/// The inbox's tables in a schema, whoever the consumer is.
#[derive(Debug, Clone)]
pub(super) struct PgTables {
    pool: PgPool,
    schema: SchemaName,
    sql: Arc<Statements>,
}

impl PgTables {
    pub(super) fn new(pool: PgPool, schema: SchemaName) -> Self {
        let sql = Arc::new(Statements::compile(&schema));
        Self { pool, schema, sql }
    }

    pub(super) fn usual(pool: PgPool) -> Result<Self> {
        Ok(Self::new(pool, SchemaName::parse(SCHEMA)?))
    }
}

impl PostgresInbox {
    /// In the schema `posthaste_inbox`.
    pub fn new(pool: PgPool, consumer: &str) -> Result<Self> {
        Ok(Self { tables: PgTables::usual(pool)?, consumer: Consumer::parse(consumer)?, keep: KEEP })
    }

    /// In a schema of your choice.
    pub fn new_in(pool: PgPool, schema: SchemaName, consumer: &str) -> Result<Self> {
        Ok(Self { tables: PgTables::new(pool, schema), consumer: Consumer::parse(consumer)?, keep: KEEP })
    }

    /// How long a done event is remembered at least; 720 h otherwise. A copy that comes after [`clean`](Self::clean) has
    /// removed its mark runs the effect again.
    pub fn keep_for(mut self, keep: Duration) -> Self {
        self.keep = keep_of(keep);
        self
    }

    /// Creates the tables or brings them up to date; does nothing, and needs no right to create, if they are. Safe to call
    /// at every start and from many processes.
    pub async fn migrate(&self) -> Result<()> {
        self.tables.migrate().await
    }

    /// The SQL that [`migrate`](Self::migrate) runs, oldest first, for those who apply it with a tool of their own.
    pub fn migration_sql(&self) -> Vec<String> {
        self.tables.migration_texts()
    }

    /// Runs the effect in a transaction that also marks the event, unless it is marked:
    /// `inbox.once(id, async |tx| { ... }).await`.
    ///
    /// If the effect fails, panics or is dropped, nothing stays, neither what it wrote nor the mark. A second copy waits for
    /// the first one; with a `lock_timeout` on the connection it is told [`Once::Busy`] after that.
    pub async fn once<T, E, F>(&self, event_id: &str, effect: F) -> Result<Once<T>, OnceError<E>>
    where
        F: AsyncFnOnce(&mut PgConnection) -> Result<T, E>,
    {
        let doing = "begin the consumer's transaction";
        let mut tx = self.tables.pool.begin().await.map_err(Error::database(doing))?;
        match self.check_and_mark(&mut tx, event_id).await {
            Ok(Mark::Fresh) => {}
            Ok(Mark::Duplicate) => return Ok(Once::Duplicate),
            Err(error) if lock_was_not_given(&error) => return Ok(Once::Busy { retry_after: SOON }),
            Err(error) => return Err(error.into()),
        }
        match effect(&mut tx).await {
            Ok(value) => {
                self.commit(tx, event_id).await.map(|()| Once::Done(value)).map_err(OnceError::Inbox)
            }
            Err(error) => {
                roll_back(tx).await;
                Err(OnceError::Effect(error))
            }
        }
    }

    /// Marks the event in the caller's transaction: do the effect there if it is fresh, and [`commit`](Self::commit) both.
    ///
    /// Waits for another transaction that marks the same event, and then goes by what became of it.
    ///
    /// # Errors
    /// [`Error::Conflict`] under REPEATABLE READ if the other one committed, and for deadlocks between transactions that mark
    /// several events in opposite order: run the transaction again.
    pub async fn check_and_mark(&self, tx: &mut PgConnection, event_id: &str) -> Result<Mark> {
        check_id(event_id)?;
        let marked = sqlx::query(self.tables.sql.mark.clone())
            .bind(self.consumer.as_str())
            .bind(event_id)
            .bind(micros(self.keep))
            .execute(tx)
            .await
            .map_err(Error::database("mark an event"))?;
        Ok(if marked.rows_affected() == 1 { Mark::Fresh } else { Mark::Duplicate })
    }

    /// Commits the caller's transaction after [`check_and_mark`](Self::check_and_mark) and the effect of a fresh event.
    ///
    /// A COMMIT after a failed statement is a ROLLBACK, and nobody is told: an effect that swallowed an error would be lost
    /// although the commit succeeded. Hence this looks for the mark first.
    ///
    /// # Errors
    /// Whatever the error, do not acknowledge the message. [`Error::MarkGone`] if the mark is gone, [`Error::Database`] if
    /// the transaction has failed before.
    pub async fn commit(&self, mut tx: Transaction<'_, Postgres>, event_id: &str) -> Result<()> {
        self.expect_mark(&mut tx, event_id).await?;
        tx.commit().await.map_err(Error::database("commit the effect with its mark"))
    }

    /// A COMMIT after a failed statement is a ROLLBACK, and nobody is told. An effect that swallowed an error, or that rolled
    /// back by itself, is found here.
    async fn expect_mark(&self, tx: &mut PgConnection, event_id: &str) -> Result<()> {
        let marked: bool = sqlx::query_scalar(self.tables.sql.is_marked.clone())
            .bind(self.consumer.as_str())
            .bind(event_id)
            .fetch_one(tx)
            .await
            .map_err(Error::database("look for the mark before the commit"))?;
        if marked { Ok(()) } else { Err(Error::MarkGone(event_id.to_owned())) }
    }

    /// Forgets an event in the caller's transaction, so that its next copy runs the effect: for a message that is sent
    /// again on purpose.
    pub async fn forget(&self, tx: &mut PgConnection, event_id: &str) -> Result<()> {
        check_id(event_id)?;
        self.tables.forget(tx, self.consumer.as_str(), event_id).await
    }

    /// Gives up on a message in the caller's transaction: keeps it as a dead letter, and marks its event, so that other
    /// copies are duplicates. Giving up twice keeps the newer letter. Returns the letter's number.
    ///
    /// For the transaction that has marked the event, such as that of [`once`](Self::once). It keeps the letter also if another
    /// copy has done the event; outside, use [`give_up_unless_done`](Self::give_up_unless_done).
    pub async fn give_up(&self, tx: &mut PgConnection, letter: &Letter) -> Result<i64> {
        // Fresh or not is no matter: inside `once` the event is marked already.
        let (Mark::Fresh | Mark::Duplicate) = self.check_and_mark(tx, &letter.event_id).await?;
        self.tables.keep_letter(tx, self.consumer.as_str(), letter).await
    }

    /// Gives up on a message in a transaction that has not marked its event, after its effect has failed and was rolled back.
    /// As [`give_up`](Self::give_up), unless another copy has done the event meanwhile: then there is nothing to give up, and
    /// no letter is kept. Not inside [`once`](Self::once), whose own mark would be taken for that of another copy.
    pub async fn give_up_unless_done(&self, tx: &mut PgConnection, letter: &Letter) -> Result<GivenUp> {
        let consumer = self.consumer.as_str();
        let marked = self.check_and_mark(tx, &letter.event_id).await?;
        if marked == Mark::Duplicate && !self.tables.holds_letter(tx, consumer, &letter.event_id).await? {
            return Ok(GivenUp::DoneBefore);
        }
        self.tables.keep_letter(tx, consumer, letter).await.map(GivenUp::Kept)
    }

    /// What was given up on, by all consumers of this schema.
    pub fn dead_letters(&self) -> DeadLetters {
        DeadLetters::of_postgres(self.tables.clone())
    }

    /// Removes the marks of all consumers whose time is over, and letters that were decided 720 h ago. Call it now and then.
    /// Returns how many rows went.
    pub async fn clean(&self) -> Result<u64> {
        let marks = self.tables.clean_marks().await?;
        Ok(marks + self.tables.clean_letters().await?)
    }
}

impl PgTables {
    async fn forget(&self, tx: &mut PgConnection, consumer: &str, event_id: &str) -> Result<()> {
        let forgotten = sqlx::query(self.sql.forget.clone()).bind(consumer).bind(event_id).execute(tx).await;
        forgotten.map(|_| ()).map_err(Error::database("forget an event"))
    }

    async fn clean_marks(&self) -> Result<u64> {
        in_chunks(|chunk| async move {
            let removed = sqlx::query(self.sql.clean_marks.clone()).bind(chunk).execute(&self.pool).await;
            Ok(removed.map_err(Error::database("remove old marks"))?.rows_affected())
        })
        .await
    }

    async fn clean_letters(&self) -> Result<u64> {
        in_chunks(|chunk| async move {
            let statement = sqlx::query(self.sql.clean_letters.clone()).bind(chunk).bind(micros(KEEP));
            let removed = statement.execute(&self.pool).await;
            Ok(removed.map_err(Error::database("remove decided letters"))?.rows_affected())
        })
        .await
    }
}

/// `lock_not_available`: the caller's `lock_timeout` has passed.
fn lock_was_not_given(error: &Error) -> bool {
    let Error::Database { source, .. } = error else { return false };
    source.as_database_error().is_some_and(|error| error.code().as_deref() == Some("55P03"))
}

/// At once, so that the next copy need not wait for the pool to do it.
async fn roll_back(tx: Transaction<'_, Postgres>) {
    if let Err(source) = tx.rollback().await {
        tracing::debug!(%source, "the connection broke; the database rolls back by itself");
    }
}
