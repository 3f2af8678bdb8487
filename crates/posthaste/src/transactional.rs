//! The transactional handler: its writes commit together with the settlement, hence exactly once inside one database.

use std::sync::Arc;

use async_trait::async_trait;
use futures::future::BoxFuture;
use sqlx::PgConnection;

use crate::event::Event;
use crate::outcome::Outcome;
use crate::sink::{DeliveryKey, IntoOutcome, Transactional};
use crate::store::postgres::PgStore;

/// Handles one event inside a transaction that also settles it. Write with `tx`, and only with `tx`: what returns
/// [`Outcome::Delivered`] commits together with the settlement, everything else is rolled back.
///
/// A closure can be one: `|tx, event| Box::pin(async move { ... })`.
#[async_trait]
pub trait TransactionalHandler: Send + Sync + 'static {
    /// Handles the event.
    async fn handle(&self, tx: &mut PgConnection, event: Arc<Event>) -> Outcome;
}

#[async_trait]
impl<F, R> TransactionalHandler for F
where
    F: for<'a> Fn(&'a mut PgConnection, Arc<Event>) -> BoxFuture<'a, R> + Send + Sync + 'static,
    R: IntoOutcome,
{
    async fn handle(&self, tx: &mut PgConnection, event: Arc<Event>) -> Outcome {
        self(tx, event).await.into_outcome()
    }
}

pub(crate) struct InTransaction<H> {
    pub(crate) store: PgStore,
    pub(crate) handler: H,
}

#[async_trait]
impl<H: TransactionalHandler> Transactional for InTransaction<H> {
    async fn handle(&self, event: Arc<Event>, delivery: &DeliveryKey) -> Outcome {
        match self.handle_and_settle(event, delivery).await {
            Ok(outcome) => outcome,
            // The attempt is settled outside, under the same token: if the commit did happen, that changes nothing.
            Err(error) => Outcome::retry(error),
        }
    }
}

impl<H: TransactionalHandler> InTransaction<H> {
    async fn handle_and_settle(&self, event: Arc<Event>, delivery: &DeliveryKey) -> Result<Outcome, String> {
        let text = |error: sqlx::Error| format!("the handler's transaction failed: {error}");
        let mut tx = self.store.pool.begin().await.map_err(text)?;
        let outcome = self.handler.handle(&mut tx, event).await;
        if outcome != Outcome::Delivered {
            tx.rollback().await.map_err(text)?;
            return Ok(outcome);
        }
        if !self.store.settle_within(&mut tx, delivery).await.map_err(|error| error.to_string())? {
            return Err("the lease was lost while the handler ran; its writes were rolled back".to_owned());
        }
        tx.commit().await.map_err(text)?;
        Ok(outcome)
    }
}
