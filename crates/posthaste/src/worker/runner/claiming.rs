//! Claiming: how much there is room for, and how a claim becomes work.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::dispatch::{Source, Work};
use crate::error::Result;
use crate::failpoint::{Point, reached};
use crate::id::Token;
use crate::lease::{Batch, ClaimedEvent, DeliveryClaim, Lane, Reader, Settlement};
use crate::sink::Receiver;
use crate::store::{BatchRef, Fresh};
use crate::subscription::ClaimBy;

use super::super::pace::{Turn, in_pace};
use super::rest::Found;
use super::{OPEN_BATCHES, OpenBatch, RECLAIM_EVERY, Reads, Runner};

impl Runner {
    pub(super) fn has_room(&self) -> bool {
        self.has_room_for(self.open.len())
    }

    /// Whether there is room beside this many open batches.
    pub(super) fn has_room_for(&self, open: usize) -> bool {
        let reader = self.context.reader();
        let held = self.queues.startable() + self.queues.waiting() + self.running_works();
        let limit = match self.reads {
            Reads::Due => reader.settings.concurrency as usize,
            _ => 2 * reader.settings.batch_size as usize,
        };
        // Enough to probe with, and not always the same: one key alone may be what the receiver is away for.
        let away = self.context.availability.is_away() && self.queues.has_choice();
        open < OPEN_BATCHES && held < limit && !away
    }

    pub(super) fn running_works(&self) -> usize {
        self.running.values().map(|job| job.works.len()).sum()
    }

    /// The right to claim, or how long to wait.
    pub(super) fn may_claim(&self) -> std::result::Result<Turn, Duration> {
        match self.rest.left() {
            Some(left) => Err(left),
            None => self.context.pace.begin(&self.context.reader()),
        }
    }

    /// Claims more work. `false`: there is none now.
    pub(super) async fn claim(&mut self) -> Result<bool> {
        let mut reader = in_pace(&self.context.reader());
        if self.records() {
            reader.claim_by = ClaimBy::Batch;
        }
        match self.reads {
            Reads::Due => self.claim_due(&reader).await,
            Reads::Owned(lane, token) => {
                if self.cursor.is_unknown() && self.take_up_lost_claims(&reader, lane, token).await? {
                    return Ok(true);
                }
                self.claim_fresh(&reader, lane, Some(token)).await
            }
            Reads::Shared(lane) => {
                Ok(self.reclaim(&reader).await? || self.claim_fresh(&reader, lane, None).await?)
            }
        }
    }

    /// A claim that committed although its answer never came is ours: left alone, its events would wait for a takeover
    /// while later ones of their keys overtake them. It may commit long after it was given up, when the network is back; so
    /// this is asked whenever the lane does not stand where we left it.
    pub(super) async fn take_up_lost_claims(
        &mut self,
        reader: &Reader,
        lane: Lane,
        token: Token,
    ) -> Result<bool> {
        let held = self.context.store.held_batches(reader, lane, token, &mut self.cursor).await?;
        let known: Vec<i64> = self.open.iter().map(|open| open.batch.number).collect();
        let lost: Vec<Batch> = held.into_iter().filter(|batch| !known.contains(&batch.number)).collect();
        let found = !lost.is_empty();
        self.take_over(lost);
        Ok(found)
    }

    pub(super) async fn claim_fresh(
        &mut self,
        reader: &Reader,
        lane: Lane,
        owner: Option<Token>,
    ) -> Result<bool> {
        let since = Instant::now();
        let context = self.context.clone();
        let (holder, page) = (context.holder(), reader.settings.batch_size as usize);
        reached(Point::Claiming);
        let fresh = context.store.claim_fresh(reader, lane, owner, &holder, &mut self.cursor).await?;
        match fresh {
            // A crash or a fail-over of the server has undone that one. What is queued of it is to be claimed again.
            Fresh::Batch(batch) if self.is_open(batch.number) => self.lost = true,
            Fresh::Batch(batch) => {
                reached(Point::Claimed);
                if owner.is_none() {
                    context.leases.hold(batch.token, 1, since, holder.lease);
                }
                let left_some = self.left_some(batch.events.len(), reader);
                let events = batch.events.iter().map(|claimed| &claimed.event);
                self.rest.claimed(since, &Found::since(since, events), page, left_some);
                self.caught_up = (!left_some).then_some(self.rung);
                self.take_in(batch);
            }
            Fresh::Deliveries(claims) => {
                reached(Point::Claimed);
                let left_some = self.left_some(claims.len(), reader);
                let events = claims.iter().map(|claim| &claim.event);
                self.rest.claimed(since, &Found::since(since, events), page, left_some);
                if claims.is_empty() {
                    // Some have a time of their own, and no settlement follows that would tell of it.
                    self.context.due_bell.ring();
                }
                self.take_in_deliveries(claims, since);
            }
            Fresh::Again => {}
            Fresh::Nothing => {
                self.rest.found_nothing(since);
                self.idle.found_nothing();
                return Ok(false);
            }
            Fresh::LaneLost => self.lost = true,
            Fresh::LaneFinished => self.finished = true,
        }
        self.idle.reset();
        Ok(true)
    }

    /// Whether a claim of so many events may have left some.
    fn left_some(&self, events: usize, reader: &Reader) -> bool {
        events >= reader.settings.batch_size as usize || self.cursor.may_have_more()
    }

    fn is_open(&self, number: i64) -> bool {
        self.open.iter().any(|open| open.batch.number == number)
    }

    pub(super) async fn reclaim(&mut self, reader: &Reader) -> Result<bool> {
        if self.last_reclaim.is_some_and(|last| last.elapsed() < RECLAIM_EVERY) {
            return Ok(false);
        }
        self.last_reclaim = Some(Instant::now());
        let since = Instant::now();
        let context = self.context.clone();
        reached(Point::Reclaiming);
        let Some(batch) = context.store.reclaim_batch(reader, &context.holder()).await? else {
            return Ok(false);
        };
        reached(Point::Reclaimed);
        context.leases.hold(batch.token, 1, since, context.holder().lease);
        self.take_in(batch);
        self.last_reclaim = None;
        Ok(true)
    }

    pub(super) async fn claim_due(&mut self, reader: &Reader) -> Result<bool> {
        let since = Instant::now();
        let context = self.context.clone();
        let held = self.queues.startable() + self.queues.waiting() + self.running_works();
        let limit = (reader.settings.concurrency as usize).saturating_sub(held).max(1);
        let limit = u32::try_from(limit).unwrap_or(u32::MAX).min(reader.settings.batch_size);
        let solo_allowed = self.solo_allowed();
        reached(Point::ClaimingDue);
        let claims = context.store.claim_deliveries(reader, &context.holder(), limit, solo_allowed).await?;
        let found = !claims.is_empty();
        self.take_in_deliveries(claims, since);
        Ok(found)
    }

    /// Whether an event that may kill its worker may be claimed: not beside another one.
    pub(super) fn solo_allowed(&self) -> bool {
        let running = self.running.values().flat_map(|job| &job.works).any(|work| work.solo);
        !running && !self.queues.any_solo()
    }

    pub(super) fn take_in(&mut self, batch: Batch) {
        let source = Source::Batch(batch.number);
        let key = BatchRef::to(&batch);
        let remaining = batch.events.len();
        let seqs = match self.records() {
            true => batch.events.iter().map(|claimed| claimed.event.seq).collect(),
            false => Vec::new(),
        };
        self.context.pace.charge(&self.context.reader(), remaining);
        self.open.push_back(OpenBatch {
            batch: key,
            remaining,
            troubles: Vec::new(),
            since: Instant::now(),
            seqs,
            handled: HashSet::new(),
            unrecorded_since: None,
            spilled: None,
        });
        let keyed = self.context.reader().keyed();
        for claimed in batch.events {
            self.take_in_claimed(claimed, source, batch.token, keyed);
        }
    }

    pub(super) fn take_in_claimed(
        &mut self,
        claimed: ClaimedEvent,
        source: Source,
        token: Token,
        keyed: bool,
    ) {
        let ClaimedEvent { event, blocked, elsewhere, wait } = claimed;
        let delayed = event.available_at;
        let key = event.key.clone().filter(|_| keyed && delayed.is_none());
        let behind = !self.parked.is_empty() || blocked;
        let behind = behind && key.as_ref().is_some_and(|key| blocked || self.parked.contains_key(key));
        let (event, solo, away_since, detached) = (Arc::new(event), false, None, false);
        let work = Work { event, key, attempts: 1, steps: 0, source, token, solo, away_since, detached };
        // A transactional handler settles delivery rows, and this one has none: it was claimed for another kind of receiver.
        let needs_row = matches!(self.context.receiver, Receiver::Transactional(_));
        match delayed {
            _ if elsewhere => self.leave_out(&work),
            Some(until) if wait.is_some() => self.done(&work, Settlement::Delay { until }),
            _ if behind || needs_row => self.done(&work, Settlement::Park),
            _ => self.queues.add(work),
        }
    }

    /// The event has a delivery row already: the batch has nothing to say about it.
    pub(super) fn leave_out(&mut self, work: &Work) {
        if let Some(open) = self.open.iter_mut().find(|open| open.has(work)) {
            open.note_handled(work.event.seq);
        }
    }

    pub(super) fn take_in_deliveries(&mut self, claims: Vec<DeliveryClaim>, since: Instant) {
        let lease = self.context.holder().lease;
        self.context.pace.charge(&self.context.reader(), claims.len());
        for claim in claims {
            let DeliveryClaim { event, key, attempts, steps, token, solo } = claim;
            self.context.leases.hold(token, 1, since, lease);
            self.queues.add(Work {
                event: Arc::new(event),
                key,
                attempts,
                steps,
                source: Source::Delivery,
                token,
                solo,
                away_since: None,
                detached: false,
            });
        }
    }

    pub(super) async fn pause_when_idle(&mut self) -> Result<Duration> {
        let context = self.context.clone();
        let poll = context.reader().settings.poll_interval;
        if matches!(self.reads, Reads::Due) {
            let due = context.store.next_due(&context.reader(), self.solo_allowed()).await?;
            return Ok(due.unwrap_or(poll).min(poll).max(Duration::from_millis(1)));
        }
        let pause = self.idle.next_pause(&context.door, &*context.store, poll).await?;
        Ok(if matches!(self.reads, Reads::Shared(_)) { pause.min(RECLAIM_EVERY) } else { pause })
    }
}
