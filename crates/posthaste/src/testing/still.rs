//! A store in which time stands still for retries: what fails while it is used is due in a hundred years, until the run is
//! over and its real due time is put back. So no backoff, however short, can pass within a run on a slow machine.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::error::Result;
use crate::id::Token;
use crate::lease::{
    Batch, DeliveryClaim, DeliverySettlement, Holder, Lane, LaneClaim, Reader, Settlement, Trouble,
};
use crate::observe::Bell;
use crate::store::{BatchRef, Cursor, Fresh, Handled, Hold, Sign, Store};
use crate::subscription::Subscription;

/// How far away retries are put.
pub(super) const FAR: Duration = Duration::from_secs(100 * 365 * 86_400);

/// A store around another one.
#[derive(Debug)]
pub(super) struct Still {
    pub(super) inner: Arc<dyn Store>,
    /// Something was settled, or there was nothing to claim: a moment to look.
    pub(super) moved: Arc<Notify>,
    /// The run is over.
    pub(super) over: CancellationToken,
}

impl Still {
    fn moved<T>(&self, done: Result<T>) -> Result<T> {
        self.moved.notify_one();
        done
    }
}

fn later(settlement: Settlement) -> Settlement {
    match settlement {
        Settlement::Retry { delay, error } => Settlement::Retry { delay: delay + FAR, error },
        other => other,
    }
}

fn all_later(troubles: &[Trouble]) -> Vec<Trouble> {
    let later =
        |trouble: &Trouble| Trouble { settlement: later(trouble.settlement.clone()), ..trouble.clone() };
    troubles.iter().map(later).collect()
}

#[async_trait]
impl Store for Still {
    async fn migrate(&self) -> Result<()> {
        self.inner.migrate().await
    }

    fn migration_sql(&self) -> Vec<String> {
        self.inner.migration_sql()
    }

    fn schema_version(&self) -> usize {
        self.inner.schema_version()
    }

    async fn check(&self) -> Result<()> {
        self.inner.check().await
    }

    async fn declare(&self, subscription: &Subscription) -> Result<Reader> {
        self.inner.declare(subscription).await
    }

    async fn reader(&self, name: &str) -> Result<Reader> {
        self.inner.reader(name).await
    }

    async fn readers(&self) -> Result<Vec<Reader>> {
        self.inner.readers().await
    }

    async fn claim_lane(&self, reader: &Reader, holder: &Holder) -> Result<Option<LaneClaim>> {
        self.inner.claim_lane(reader, holder).await
    }

    async fn claim_fresh(
        &self,
        reader: &Reader,
        lane: Lane,
        owner: Option<Token>,
        holder: &Holder,
        cursor: &mut Cursor,
    ) -> Result<Fresh> {
        self.moved(self.inner.claim_fresh(reader, lane, owner, holder, cursor).await)
    }

    async fn held_batches(
        &self,
        reader: &Reader,
        lane: Lane,
        owner: Token,
        cursor: &mut Cursor,
    ) -> Result<Vec<Batch>> {
        self.inner.held_batches(reader, lane, owner, cursor).await
    }

    async fn reclaim_batch(&self, reader: &Reader, holder: &Holder) -> Result<Option<Batch>> {
        self.inner.reclaim_batch(reader, holder).await
    }

    async fn claim_deliveries(
        &self,
        reader: &Reader,
        holder: &Holder,
        limit: u32,
        solo_allowed: bool,
    ) -> Result<Vec<DeliveryClaim>> {
        self.moved(self.inner.claim_deliveries(reader, holder, limit, solo_allowed).await)
    }

    async fn open_lane(&self, reader: &Reader) -> Result<Lane> {
        self.inner.open_lane(reader).await
    }

    async fn settle_batch(
        &self,
        reader: &Reader,
        batch: BatchRef,
        troubles: &[Trouble],
        holder: &Holder,
    ) -> Result<bool> {
        self.moved(self.inner.settle_batch(reader, batch, &all_later(troubles), holder).await)
    }

    async fn settle_delivered(
        &self,
        reader: &Reader,
        batch: BatchRef,
        holder: &Holder,
        flush: bool,
    ) -> Result<bool> {
        self.moved(self.inner.settle_delivered(reader, batch, holder, flush).await)
    }

    async fn record_batch(
        &self,
        reader: &Reader,
        batch: BatchRef,
        handled: &Handled,
        troubles: &[Trouble],
        holder: &Holder,
    ) -> Result<bool> {
        self.moved(self.inner.record_batch(reader, batch, handled, &all_later(troubles), holder).await)
    }

    /// The runner of a `strict` subscription waits out the delay by itself, so it must not hear of the end before the
    /// run is over.
    async fn hold_batch(
        &self,
        reader: &Reader,
        batch: BatchRef,
        hold: &Hold,
        troubles: &[Trouble],
        holder: &Holder,
    ) -> Result<bool> {
        let waits = !hold.delay.is_zero();
        let delay = if waits { hold.delay + FAR } else { Duration::ZERO };
        let hold = Hold { delay, ..hold.clone() };
        let held =
            self.moved(self.inner.hold_batch(reader, batch, &hold, &all_later(troubles), holder).await);
        if waits && matches!(held, Ok(true)) {
            self.over.cancelled().await;
        }
        held
    }

    async fn settle_deliveries(
        &self,
        reader: &Reader,
        settlements: &[DeliverySettlement],
    ) -> Result<Vec<i64>> {
        let later = |s: &DeliverySettlement| DeliverySettlement {
            settlement: later(s.settlement.clone()),
            ..s.clone()
        };
        let settlements: Vec<DeliverySettlement> = settlements.iter().map(later).collect();
        self.moved(self.inner.settle_deliveries(reader, &settlements).await)
    }

    async fn renew(&self, reader: &Reader, tokens: &[Token], lease: Duration) -> Result<Vec<Token>> {
        self.inner.renew(reader, tokens, lease).await
    }

    async fn release_lane(&self, reader: &Reader, lane: Lane, token: Token) -> Result<()> {
        self.inner.release_lane(reader, lane, token).await
    }

    async fn announce_worker(&self, reader: &Reader, holder: &Holder) -> Result<u32> {
        self.inner.announce_worker(reader, holder).await
    }

    async fn dismiss_worker(&self, reader: &Reader, holder: &Holder) -> Result<()> {
        self.inner.dismiss_worker(reader, holder).await
    }

    async fn next_due(&self, reader: &Reader, solo_allowed: bool) -> Result<Option<Duration>> {
        self.inner.next_due(reader, solo_allowed).await
    }

    async fn watch(&self, bell: Arc<Bell>, stop: CancellationToken) {
        self.inner.watch(bell, stop).await;
    }

    async fn put_up_sign(&self, lasting: Duration) -> Result<Sign> {
        self.inner.put_up_sign(lasting).await
    }

    async fn draw_xid(&self) -> Result<Sign> {
        self.inner.draw_xid().await
    }

    async fn all_ended(&self, sign: &Sign) -> Result<bool> {
        self.inner.all_ended(sign).await
    }
}
