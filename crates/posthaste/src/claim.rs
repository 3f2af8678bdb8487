//! Claiming by hand: for those who bring their own loop. Claim a page, settle each event alone, fenced by its lease.

use std::sync::Arc;
use std::time::Duration;

use crate::error::{Error, Result};
use crate::event::Event;
use crate::id::WorkerName;
use crate::lease::{Batch, DeliveryClaim, DeliverySettlement, Holder, Lane, Reader, Settlement, Trouble};
use crate::outcome::Outcome;
use crate::store::{BatchRef, Cursor, Fresh, Store, isolated};
use crate::subscription::{ClaimBy, Order, Subscription};

/// A claimed event. Not `Clone`: it is settled once, by [`Claims::settle`].
#[derive(Debug)]
#[must_use = "a claimed event that is not settled is delivered again when its lease has run out"]
pub struct Claimed {
    claim: DeliveryClaim,
}

impl Claimed {
    /// The event.
    pub fn event(&self) -> &Event {
        self.claim.event()
    }

    /// Attempts at this event, this one included.
    pub fn attempts(&self) -> u32 {
        self.claim.attempts()
    }
}

/// Claims of one subscription, by hand.
#[derive(Debug)]
pub struct Claims {
    store: Arc<dyn Store>,
    name: String,
    worker: WorkerName,
    lane: Option<(Lane, crate::id::Token)>,
    cursor: Cursor,
}

impl Claims {
    pub(crate) async fn open(store: Arc<dyn Store>, subscription: &Subscription) -> Result<Self> {
        if subscription.order == Order::Strict {
            return Err(Error::invalid_setting(
                "order",
                "`strict` order needs a worker; it cannot be claimed by hand",
            ));
        }
        store.check().await?;
        let by_event = subscription.clone().claim_by(ClaimBy::Event);
        let name = store.declare(&by_event).await?.name;
        Ok(Self { store, name, worker: WorkerName::unique(), lane: None, cursor: Cursor::Unknown })
    }

    /// Claims up to `limit` events under a lease: first what is due again, then fresh ones. Empty: nothing to do now.
    ///
    /// In `key` order events of one key may come together; handle and settle them in the order given.
    pub async fn claim(&mut self, limit: u32) -> Result<Vec<Claimed>> {
        let mut reader = self.store.reader(&self.name).await?;
        reader.settings.batch_size = limit.max(1);
        if reader.paused {
            return Ok(Vec::new());
        }
        let holder = self.holder(&reader);
        let mut claims = self.store.claim_deliveries(&reader, &holder, limit, true).await?;
        if claims.is_empty() {
            claims = self.claim_fresh(&reader, &holder).await?;
        }
        Ok(claims.into_iter().map(|claim| Claimed { claim }).collect())
    }

    async fn claim_fresh(&mut self, reader: &Reader, holder: &Holder) -> Result<Vec<DeliveryClaim>> {
        if reader.order == Order::None {
            while let Some(batch) = self.store.reclaim_batch(reader, holder).await? {
                self.take_up(reader, holder, vec![batch]).await?;
            }
        }
        loop {
            let Some((lane, owner)) = self.lane(reader, holder).await? else { return Ok(Vec::new()) };
            match self.store.claim_fresh(reader, lane, owner, holder, &mut self.cursor).await? {
                Fresh::Deliveries(claims) if !claims.is_empty() => return Ok(claims),
                Fresh::Deliveries(_) | Fresh::Again => {}
                Fresh::Nothing | Fresh::Batch(_) => return Ok(Vec::new()),
                Fresh::LaneLost | Fresh::LaneFinished => {
                    self.lane = None;
                    self.cursor = Cursor::Unknown;
                }
            }
        }
    }

    /// The lane to read from: shared in order `none`, else one of our own, its lease renewed at every claim.
    async fn lane(
        &mut self,
        reader: &Reader,
        holder: &Holder,
    ) -> Result<Option<(Lane, Option<crate::id::Token>)>> {
        if reader.order == Order::None {
            return Ok(Some((self.store.open_lane(reader).await?, None)));
        }
        if let Some((lane, token)) = self.lane
            && !self.store.renew(reader, &[token], holder.lease).await?.is_empty()
        {
            return Ok(Some((lane, Some(token))));
        }
        self.cursor = Cursor::Unknown;
        self.lane = None;
        if let Some(claim) = self.store.claim_lane(reader, holder).await? {
            self.take_up(reader, holder, claim.unfinished).await?;
            self.lane = Some((claim.lane, claim.token));
        }
        Ok(self.lane.map(|(lane, token)| (lane, Some(token))))
    }

    /// Batches that a lost worker left, from when the subscription was claimed by batch: their events become
    /// deliveries, and are claimed as such.
    async fn take_up(&self, reader: &Reader, holder: &Holder, batches: Vec<Batch>) -> Result<()> {
        for batch in batches {
            let left = batch.events.iter().filter(|claimed| !claimed.elsewhere);
            let left: Vec<Trouble> = left.map(|claimed| isolated(claimed, reader)).collect();
            let batch = BatchRef::to(&batch);
            self.store.settle_batch(reader, batch, &left, holder).await?;
        }
        Ok(())
    }

    /// Reports what became of a claimed event. [`Error::LeaseLost`]: it belongs to somebody else now; log it and do
    /// nothing more about it.
    pub async fn settle(&self, claimed: Claimed, outcome: Outcome) -> Result<()> {
        let reader = self.store.reader(&self.name).await?;
        let DeliveryClaim { event, key, attempts, steps, token, .. } = claimed.claim;
        let settlement = Settlement::of(outcome, attempts, &reader.settings);
        let settlement = DeliverySettlement { seq: event.seq, token, key, settlement, steps };
        match self.store.settle_deliveries(&reader, &[settlement]).await?.is_empty() {
            true => Err(Error::LeaseLost),
            false => Ok(()),
        }
    }

    /// Renews the lease of a claimed event while it is worked on.
    pub async fn renew(&self, claimed: &Claimed) -> Result<()> {
        let reader = self.store.reader(&self.name).await?;
        let lease = reader.settings.lease;
        match self.store.renew(&reader, &[claimed.claim.token], lease).await?.is_empty() {
            true => Err(Error::LeaseLost),
            false => Ok(()),
        }
    }

    /// Gives a claimed event back untried: it is due again at once, and the attempt is not counted.
    pub async fn release(&self, claimed: Claimed) -> Result<()> {
        let reader = self.store.reader(&self.name).await?;
        let DeliveryClaim { event, key, steps, token, .. } = claimed.claim;
        let settlement = Settlement::GiveBack { delay: Duration::ZERO };
        let settlement = DeliverySettlement { seq: event.seq, token, key, settlement, steps };
        match self.store.settle_deliveries(&reader, &[settlement]).await?.is_empty() {
            true => Err(Error::LeaseLost),
            false => Ok(()),
        }
    }

    fn holder(&self, reader: &Reader) -> Holder {
        Holder { worker: self.worker.clone(), lease: reader.settings.lease }
    }
}
