//! Hooks for tests of applications: look into an open transaction, move due times, run until nothing is left to do.
//!
//! Behind the feature `testing`, and used through the crate `posthaste-testkit`. Nothing here is for production: it may
//! read the whole log, and moving times changes rows that are otherwise never changed.

use std::time::Duration;

use crate::enqueue::{Database, Producer};
use crate::error::Result;
use crate::event::Event;
use crate::handle::Posthaste;
use crate::store::testing::{Move, TestStore};

mod run;
mod still;

#[cfg(feature = "failpoints")]
pub use crate::failpoint::{FAILPOINTS, on_failpoint};
pub use crate::store::testing::{EventMark, NotDelivered, Why};
pub use run::{End, Run};

/// The hooks of one log.
#[derive(Debug, Clone)]
pub struct Testing {
    posthaste: Posthaste,
}

impl Posthaste {
    /// To test what uses it.
    pub fn testing(&self) -> Testing {
        Testing { posthaste: self.clone() }
    }
}

impl Testing {
    fn store(&self) -> &dyn TestStore {
        match self.posthaste.log.0 {
            #[cfg(feature = "postgres")]
            Database::Postgres(ref store) => store,
            #[cfg(feature = "sqlite")]
            Database::Sqlite(ref store) => store,
        }
    }

    /// Remembers what this connection sees of the log now: committed events, and those of its own open transaction.
    pub async fn mark(&self, connection: &mut impl Producer) -> Result<EventMark> {
        connection.event_mark(&self.posthaste.log).await
    }

    /// The events that this connection sees now and did not see at the mark, in the order of the log. Asked in the
    /// transaction in which the mark was taken, these are the events of that transaction and no others.
    pub async fn enqueued_since(
        &self,
        connection: &mut impl Producer,
        mark: &EventMark,
    ) -> Result<Vec<Event>> {
        connection.enqueued_since(&self.posthaste.log, mark).await
    }

    /// What a subscription wants and has not delivered, in the order of the log, seen at one moment.
    pub async fn not_delivered(&self, subscription: &str) -> Result<Vec<NotDelivered>> {
        self.store().not_delivered(subscription).await
    }

    /// Makes everything that waits for a time due this much earlier, in all subscriptions: delayed events, retries, what
    /// holds a `strict` subscription, and the ends of dedupe keys. Then wakes the workers of this process. Leases and the
    /// ages of events stay as they are.
    pub async fn advance(&self, by: Duration) -> Result<()> {
        self.store().advance(by, Move::Everything).await?;
        self.posthaste.wake();
        Ok(())
    }
}
