//! The transactional handler: its writes commit together with the settlement, hence exactly once inside one database.

use std::marker::PhantomData;
use std::ops::DerefMut;
use std::sync::Arc;

use async_trait::async_trait;
use futures::future::BoxFuture;
use sqlx::{Connection, PgConnection};

use crate::error::{Error, Result};
use crate::event::Event;
use crate::failpoint::{Point, reached};
use crate::outcome::Outcome;
use crate::sink::{DeliveryKey, IntoOutcome, Transactional};
use crate::store::postgres::PgStore;

const DOING: &str = "the handler's transaction";

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
            // It is tried again under the same token, or settled outside: if the commit did happen, neither changes anything.
            Err(error) if error.is_away() => Outcome::unavailable(error),
            Err(error) => Outcome::retry(error),
        }
    }

    async fn check(&self) -> std::result::Result<(), String> {
        self.store.answers().await.map_err(|error| error.to_string())
    }
}

impl<F: InTransactionFn<R>, R: IntoOutcome> InTransaction<F, R> {
    async fn handle_and_settle(&self, event: Arc<Event>, delivery: &DeliveryKey) -> Result<Outcome> {
        let mut conn = self.store.lend(DOING).await?;
        // Not as the engine begins its own: the handler may take its time between two statements.
        let mut tx = conn.deref_mut().begin().await.map_err(Error::database(DOING))?;
        let outcome = (self.handler)(&mut tx, event).await.into_outcome();
        reached(Point::HandlerReturned);
        match outcome {
            Outcome::Delivered => {
                self.store.settle_and_commit(tx, delivery).await?;
                reached(Point::HandlerCommitted);
            }
            _ => self.store.roll_back(tx).await?,
        }
        Ok(outcome)
    }
}
