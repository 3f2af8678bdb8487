//! Workers whose handlers share a transaction with the settlement: only PostgreSQL has them.

use std::sync::Arc;

use futures::future::BoxFuture;

use super::Posthaste;
use crate::enqueue::Database;
use crate::error::{Error, Result};
use crate::event::Event;
use crate::sink::{IntoOutcome, Receiver};
use crate::store::postgres::PgStore;
use crate::subscription::{ClaimBy, Order, Subscription};
use crate::transactional::InTransaction;
use crate::worker::WorkerBuilder;

impl Posthaste {
    /// A worker whose handler's writes commit together with the settlement (PostgreSQL only), hence exactly once inside
    /// one database: `posthaste.transactional(subscription, |tx, event| Box::pin(async move { ... }))`.
    ///
    /// Write with `tx`, and only with `tx`: what returns [`Outcome::Delivered`](crate::Outcome::Delivered) commits
    /// together with the settlement, everything else is rolled back. Events are claimed one by one, as
    /// [`ClaimBy::Event`](crate::ClaimBy::Event) does.
    pub fn transactional<F, R>(&self, subscription: Subscription, handler: F) -> Result<WorkerBuilder>
    where
        F: for<'a> Fn(&'a mut sqlx::PgConnection, Arc<Event>) -> BoxFuture<'a, R> + Send + Sync + 'static,
        R: IntoOutcome + 'static,
    {
        let store = self.postgres_store()?;
        if subscription.order == Order::Strict {
            return Err(Error::invalid_setting("order", "a transactional handler takes `key` order or none"));
        }
        let handler = InTransaction::new(store.clone(), handler);
        Ok(self.worker(subscription.claim_by(ClaimBy::Event), Receiver::Transactional(Arc::new(handler))))
    }

    fn postgres_store(&self) -> Result<&PgStore> {
        match &self.log.0 {
            Database::Postgres(store) => Ok(store),
            #[cfg(feature = "sqlite")]
            Database::Sqlite(_) => {
                Err(Error::invalid_setting("handler", "a transactional handler needs PostgreSQL"))
            }
        }
    }
}
