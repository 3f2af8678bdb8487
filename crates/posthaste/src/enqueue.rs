//! Enqueue: write events inside the caller's transaction. Does no I/O except on the connection it is handed.

use futures::future::BoxFuture;

use crate::error::Result;
use crate::event::{Enqueued, Limits, NewEvent};
#[cfg(feature = "postgres")]
use crate::store::postgres::PgStore;
#[cfg(feature = "sqlite")]
use crate::store::sqlite::SqliteStore;
#[cfg(feature = "testing")]
use crate::{event::Event, store::testing::EventMark};

/// The database behind a handle, as far as producers need to tell them apart.
#[derive(Debug, Clone)]
pub(crate) enum Database {
    #[cfg(feature = "postgres")]
    Postgres(PgStore),
    #[cfg(feature = "sqlite")]
    Sqlite(SqliteStore),
}

/// A connection or transaction that events can be enqueued on: sqlx's, of the database Posthaste was opened with.
///
/// Sealed: it is implemented for `PgConnection`, `SqliteConnection`, and their transactions and pooled connections.
pub trait Producer: sealed::Sealed + Send {
    #[doc(hidden)]
    fn insert<'a>(
        &'a mut self,
        database: &'a sealed::Log,
        events: &'a [NewEvent],
    ) -> BoxFuture<'a, Result<Vec<Enqueued>>>;

    /// What this connection sees of the log now.
    #[cfg(feature = "testing")]
    #[doc(hidden)]
    fn event_mark<'a>(&'a mut self, database: &'a sealed::Log) -> BoxFuture<'a, Result<EventMark>>;

    /// What it sees now and did not see at the mark.
    #[cfg(feature = "testing")]
    #[doc(hidden)]
    fn enqueued_since<'a>(
        &'a mut self,
        database: &'a sealed::Log,
        mark: &'a EventMark,
    ) -> BoxFuture<'a, Result<Vec<Event>>>;
}

mod sealed {
    pub trait Sealed {}

    /// Keeps the store out of the public signature.
    #[derive(Debug, Clone)]
    pub struct Log(pub(crate) super::Database);
}
pub(crate) use sealed::Log;

/// Does something with the store, if it is of the connection's kind.
macro_rules! on {
    ($database:ident, $log:ident, $store:ident => $does:expr) => {
        match &$log.0 {
            Database::$database($store) => $does.await,
            #[cfg(all(feature = "postgres", feature = "sqlite"))]
            _ => Err(crate::error::Error::invalid_setting(
                "connection",
                "is of another kind than the database Posthaste was opened with",
            )),
        }
    };
}

macro_rules! producer {
    ($database:ident: $($type:ty),+) => { $(
        impl sealed::Sealed for $type {}
        impl Producer for $type {
            fn insert<'a>(
                &'a mut self,
                log: &'a sealed::Log,
                events: &'a [NewEvent],
            ) -> BoxFuture<'a, Result<Vec<Enqueued>>> {
                Box::pin(async move { on!($database, log, store => store.enqueue(&mut *self, events)) })
            }

            #[cfg(feature = "testing")]
            fn event_mark<'a>(&'a mut self, log: &'a sealed::Log) -> BoxFuture<'a, Result<EventMark>> {
                Box::pin(async move { on!($database, log, store => store.event_mark(&mut *self)) })
            }

            #[cfg(feature = "testing")]
            fn enqueued_since<'a>(
                &'a mut self,
                log: &'a sealed::Log,
                mark: &'a EventMark,
            ) -> BoxFuture<'a, Result<Vec<Event>>> {
                Box::pin(async move { on!($database, log, store => store.enqueued_since(&mut *self, mark)) })
            }
        }
    )+ };
}

#[cfg(feature = "postgres")]
producer!(Postgres: sqlx::PgConnection, sqlx::Transaction<'_, sqlx::Postgres>, sqlx::pool::PoolConnection<sqlx::Postgres>);
#[cfg(feature = "sqlite")]
producer!(Sqlite: sqlx::SqliteConnection, sqlx::Transaction<'_, sqlx::Sqlite>, sqlx::pool::PoolConnection<sqlx::Sqlite>);

/// Checks all events, then inserts them with one statement. If one is invalid, none is inserted and no SQL is sent.
pub(crate) async fn enqueue(
    log: &Log,
    limits: &Limits,
    connection: &mut impl Producer,
    events: &[NewEvent],
) -> Result<Vec<Enqueued>> {
    events.iter().try_for_each(|event| event.validate(limits))?;
    if events.is_empty() {
        return Ok(Vec::new());
    }
    connection.insert(log, events).await
}
