//! The transactional handler: its writes commit together with the settlement, hence exactly once inside one database.

use std::marker::PhantomData;
use std::sync::Arc;

use async_trait::async_trait;
use futures::future::BoxFuture;
use sqlx::PgConnection;

use crate::event::Event;
use crate::failpoint::{Point, reached};
use crate::outcome::Outcome;
use crate::sink::{DeliveryKey, IntoOutcome, Transactional};
use crate::store::postgres::PgStore;

/// A function that handles one event inside a transaction that also settles it.
pub(crate) trait InTransactionFn<R>:
    for<'a> Fn(&'a mut PgConnection, Arc<Event>) -> BoxFuture<'a, R> + Send + Sync + 'static
{
}

impl<F, R> InTransactionFn<R> for F where
    F: for<'a> Fn(&'a mut PgConnection, Arc<Event>) -> BoxFuture<'a, R> + Send + Sync + 'static
{
}

pub(crate) struct InTransaction<F, R> {
    store: PgStore,
    handler: F,
    outcome: PhantomData<fn() -> R>,
}

impl<F: InTransactionFn<R>, R: IntoOutcome> InTransaction<F, R> {
    pub(crate) fn new(store: PgStore, handler: F) -> Self {
        Self { store, handler, outcome: PhantomData }
    }
}

#[async_trait]
impl<F: InTransactionFn<R>, R: IntoOutcome + 'static> Transactional for InTransaction<F, R> {
    async fn handle(&self, event: Arc<Event>, delivery: &DeliveryKey) -> Outcome {
        match self.handle_and_settle(event, delivery).await {
            Ok(outcome) => outcome,
            // The attempt is settled outside, under the same token: if the commit did happen, that changes nothing.
            Err(error) => Outcome::retry(error),
        }
    }
}

impl<F: InTransactionFn<R>, R: IntoOutcome> InTransaction<F, R> {
    async fn handle_and_settle(&self, event: Arc<Event>, delivery: &DeliveryKey) -> Result<Outcome, String> {
        let text = |error: sqlx::Error| format!("the handler's transaction failed: {error}");
        let mut tx = self.store.pool.begin().await.map_err(text)?;
        let outcome = (self.handler)(&mut tx, event).await.into_outcome();
        reached(Point::HandlerReturned);
        if outcome != Outcome::Delivered {
            tx.rollback().await.map_err(text)?;
            return Ok(outcome);
        }
        if !self.store.settle_within(&mut tx, delivery).await.map_err(|error| error.to_string())? {
            return Err("the lease was lost while the handler ran; its writes were rolled back".to_owned());
        }
        reached(Point::SettledWithin);
        tx.commit().await.map_err(text)?;
        reached(Point::HandlerCommitted);
        Ok(outcome)
    }
}
