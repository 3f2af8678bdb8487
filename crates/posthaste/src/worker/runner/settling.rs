//! Settling: what became of each work, written batch by batch in order, and slow batches closed.

use std::time::{Duration, Instant};

use crate::dispatch::{Source, Work};
use crate::error::Result;
use crate::failpoint::{Point, reached};
use crate::id::Token;
use crate::lease::{DeliverySettlement, Settlement, Trouble};
use crate::observe::add;
use crate::outcome::Outcome;
use crate::page::Report;
use crate::store::BatchRef;

use super::{PAGES_AT_ONCE, Reads, Runner, SLOW_AFTER};

impl Runner {
    pub(super) fn collect(&mut self) {
        while let Some(done) = self.jobs.try_join_next() {
            self.job_done(done);
        }
    }

    pub(super) fn job_done(&mut self, done: Result<(u64, Vec<Report>), tokio::task::JoinError>) {
        // A job never panics (the receiver's panics are caught) and is aborted only after the runner has let go.
        let Ok((id, reports)) = done else { return };
        let Some(job) = self.running.remove(&id) else { return };
        if self.context.receiver.takes_pages() {
            self.page_ended = Some(Instant::now());
        }
        let away = reports.iter().any(|report| matches!(report.outcome, Outcome::Unavailable { .. }));
        let mut again: Vec<Work> = Vec::new();
        let mut failed_keys: Vec<String> = Vec::new();
        for (mut work, Report { outcome, steps }) in job.works.into_iter().zip(reports) {
            work.steps = steps;
            // What follows an event of its key in this page goes where that one went: otherwise it would overtake it.
            let parked = || work.key.as_ref().is_some_and(|key| failed_keys.contains(key));
            let waits = || work.key.is_some() && again.iter().any(|earlier| earlier.key == work.key);
            match outcome {
                Outcome::Delivered => self.delivered(&work),
                _ if parked() => self.done(&work, Settlement::Park),
                Outcome::Unavailable { .. } => {
                    work.away_since.get_or_insert_with(Instant::now);
                    again.push(work);
                }
                _ if waits() => again.push(work),
                outcome => {
                    failed_keys.extend(work.key.clone());
                    self.work_done(work, outcome);
                }
            }
        }
        self.note_availability(away);
        if let [probe] = &again[..]
            && self.is_alone_with_it(probe)
        {
            return self.leave_for_later(probe);
        }
        let probe = again.len() == 1;
        for work in again.into_iter().rev() {
            self.queues.put_back(work);
        }
        // If only this one finds the receiver away, the next probe must be another, or it would hold up everybody.
        if probe {
            self.queues.turn();
        }
    }

    /// Whether it finds the receiver away although others have reached it since it first did.
    fn is_alone_with_it(&self, probe: &Work) -> bool {
        probe.away_since.is_some_and(|since| self.context.availability.reached_since(since))
    }

    /// It keeps its attempts and its key, and its batch need not wait for it any longer.
    fn leave_for_later(&mut self, work: &Work) {
        let delay = self.context.reader().settings.base_delay;
        self.done(work, Settlement::GiveBack { delay });
        self.park_behind(work);
    }

    pub(super) fn note_availability(&self, away: bool) {
        if away {
            add(&self.context.counters.unavailable, 1);
            self.context.availability.went_away();
        } else {
            self.context.availability.came_back();
        }
    }

    fn delivered(&mut self, work: &Work) {
        self.done(work, Settlement::Delivered);
        if !work.detached {
            self.queues.release(work.key.as_deref());
        }
    }

    pub(super) fn work_done(&mut self, work: Work, outcome: Outcome) {
        let settlement = Settlement::of(outcome, work.attempts, &self.context.reader().settings);
        // The later events of the key queue behind it in the database, in the same transaction: also after a dead
        // letter, which must be committed before the next one is sent. A detached one has none behind it as a rule, but if a
        // page was put back, the later ones of its key are detached like itself.
        self.done(&work, settlement);
        self.park_behind(&work);
    }

    /// Notes the settlement of one work; `settle` writes it.
    pub(super) fn done(&mut self, work: &Work, settlement: Settlement) {
        self.context.note(&work.event, &settlement);
        match work.source {
            Source::Delivery => {
                let (seq, token, key) = (work.event.seq, work.token, work.key.clone());
                self.settlements.push(DeliverySettlement { seq, token, key, settlement, steps: work.steps });
            }
            Source::Batch(_) => self.done_in_batch(work, settlement),
        }
    }

    pub(super) fn done_in_batch(&mut self, work: &Work, settlement: Settlement) {
        let Some(open) = self.open.iter_mut().find(|open| open.has(work)) else { return };
        open.note_handled(work.event.seq);
        if settlement == Settlement::Delivered {
            return;
        }
        let attempts = match settlement {
            Settlement::Retry { .. } | Settlement::Dead { .. } | Settlement::Spill { .. } => work.attempts,
            _ => 0,
        };
        if let Some(key) = &work.key {
            *self.parked.entry(key.clone()).or_default() += 1;
        }
        let (seq, event_id, key, steps) = (work.event.seq, work.event.id, work.key.clone(), work.steps);
        open.troubles.push(Trouble { seq, event_id, key, settlement, attempts, steps, solo: false });
    }

    pub(super) async fn settle(&mut self) -> Result<()> {
        self.settle_batches().await?;
        self.settle_deliveries().await
    }

    /// Settles finished batches: in an owned lane in number order, so that a parked event is never written before
    /// the one it waits for.
    pub(super) async fn settle_batches(&mut self) -> Result<()> {
        let in_order = matches!(self.reads, Reads::Owned(..));
        let mut index = 0;
        while let Some(open) = self.open.get_mut(index) {
            if open.remaining > 0 {
                if in_order {
                    return Ok(());
                }
                index += 1;
                continue;
            }
            open.troubles.sort_by_key(|trouble| trouble.seq);
            if !open.troubles.is_empty() {
                self.cursor.forget_ahead();
            }
            let context = self.context.clone();
            let (batch, troubles) = (open.batch, &open.troubles);
            reached(Point::Settling);
            let held =
                context.store.settle_batch(&context.reader(), batch, troubles, &context.holder()).await?;
            reached(Point::Settled);
            self.batch_settled(index, held);
        }
        Ok(())
    }

    /// The oldest batch, if everything in it was delivered and there is room for another one in its place: nobody waits for
    /// its settlement, so the next claim need not either.
    pub(super) fn delivered_batch(&self) -> Option<BatchRef> {
        let Reads::Owned(..) = self.reads else { return None };
        let oldest = self.open.front().filter(|open| open.remaining == 0 && open.troubles.is_empty())?;
        let more_to_settle = self.open.iter().skip(1).any(|open| open.remaining == 0);
        let limited = self.context.reader().settings.rate > 0 || self.cursor.stops();
        // Claimed by event, what was handled does not stay unwritten for a whole rest.
        let waits_too_long = self.records() && self.rest.left().is_some();
        let beside = self.has_room_for(self.open.len() - 1) && !more_to_settle && !limited && !waits_too_long;
        beside.then_some(oldest.batch)
    }

    /// Settles a batch that was delivered, and claims another one beside it if asked to. `false`: there is none now.
    pub(super) async fn settle_and_claim(&mut self, delivered: BatchRef, claims: bool) -> Result<bool> {
        let context = self.context.clone();
        let (reader, holder) = (context.reader(), context.holder());
        // Here it holds up nobody to wait for the disk: then claims need not.
        let unflushed = self.cursor.unflushed();
        let flush = unflushed >= reader.settings.batch_size as usize;
        let settle = context.store.settle_delivered(&reader, delivered, &holder, flush);
        let claim = async { if claims { self.claim().await } else { Ok(false) } };
        reached(Point::Settling);
        let (settled, claimed) = tokio::join!(settle, claim);
        reached(Point::Settled);
        let held = settled?;
        if flush && held {
            self.cursor.note_flushed(unflushed);
        }
        if let Some(index) = self.open.iter().position(|open| open.batch == delivered) {
            self.batch_settled(index, held);
        }
        claimed
    }

    pub(super) fn batch_settled(&mut self, index: usize, held: bool) {
        let Some(open) = self.open.remove(index) else { return };
        add(&self.context.counters.batches, u64::from(held));
        if let Some((token, works)) = open.spilled.filter(|_| held) {
            // From now on there are rows to renew.
            self.context.leases.hold(token, works, Instant::now(), self.context.holder().lease);
        }
        self.troubles_written(&open.troubles);
        match self.reads {
            Reads::Owned(..) if !held => self.lost = true,
            Reads::Owned(..) => {}
            _ => self.context.leases.let_go(open.batch.token),
        }
        if !held {
            self.context.lease_lost("a batch", 1);
        }
    }

    /// From now on the database knows what waits for them.
    pub(super) fn troubles_written(&mut self, troubles: &[Trouble]) {
        for key in troubles.iter().filter_map(|trouble| trouble.key.as_ref()) {
            if let Some(count) = self.parked.get_mut(key) {
                *count -= 1;
                if *count == 0 {
                    self.parked.remove(key);
                }
            }
        }
        if !troubles.is_empty() {
            self.context.due_bell.ring();
        }
    }

    pub(super) async fn settle_deliveries(&mut self) -> Result<()> {
        // A transactional handler has settled what it delivered.
        let transactional = matches!(self.context.receiver, crate::sink::Receiver::Transactional(_));
        let by_handler = |s: &DeliverySettlement| transactional && s.settlement == Settlement::Delivered;
        let to_write: Vec<_> = self.settlements.iter().filter(|s| !by_handler(s)).cloned().collect();
        if !to_write.is_empty() {
            reached(Point::SettlingDue);
            let written = self.context.store.settle_deliveries(&self.context.reader(), &to_write).await?;
            reached(Point::DueSettled);
            let lost = to_write.iter().filter(|s| !written.contains(&s.seq)).count();
            self.context.lease_lost("a delivery", lost);
        }
        if !self.settlements.is_empty() {
            self.context.due_bell.ring();
        }
        for settled in self.settlements.drain(..) {
            self.context.leases.let_go(settled.token);
        }
        Ok(())
    }

    /// There is room, but nothing to claim: an open batch in which something failed must not wait for its slow events
    /// before that is written, or they would hold the other keys' retries.
    pub(super) async fn close_troubled_batch(&mut self) -> Result<Duration> {
        match self.open.front() {
            Some(front) if !front.troubles.is_empty() => self.close_slow_batch().await,
            _ => Ok(Duration::MAX),
        }
    }

    /// No room: if the oldest batch only waits for slow events, it is closed, and they go on as deliveries. Returns how
    /// long to wait before looking again.
    pub(super) async fn close_slow_batch(&mut self) -> Result<Duration> {
        let away = self.context.availability.is_away();
        let Some(front) = self.open.front() else {
            if !away && self.queues.startable() == 0 && self.queues.waiting() > 0 {
                self.park_waiting();
                return Ok(Duration::from_millis(1));
            }
            return Ok(SLOW_AFTER);
        };
        // A page is slow if it lags behind another one that has ended. Two that are under way are what there should be: if
        // their batches were closed, every event of a receiver that takes its time would get a row.
        if self.context.receiver.takes_pages() && self.running.len() >= PAGES_AT_ONCE {
            return Ok(SLOW_AFTER);
        }
        let since = self.page_ended.map_or(front.since, |ended| ended.max(front.since));
        let left = SLOW_AFTER.saturating_sub(since.elapsed());
        if away || !left.is_zero() || self.queues.startable() > 0 {
            return Ok(left.max(Duration::from_millis(10)));
        }
        self.spill(front.batch).await?;
        Ok(Duration::from_millis(1))
    }

    pub(super) async fn spill(&mut self, batch: BatchRef) -> Result<()> {
        let source = Source::Batch(batch.number);
        let token = Token::new();
        let mut running: Vec<Work> = Vec::new();
        for work in self
            .running
            .values_mut()
            .flat_map(|job| &mut job.works)
            .filter(|work| work.source == source && work.token == batch.token)
        {
            running.push(work.clone());
            (work.source, work.token, work.detached) = (Source::Delivery, token, true);
        }
        if let Some(open) = self.open.iter_mut().find(|open| open.batch == batch) {
            open.spilled = Some((token, running.len()));
        }
        for work in &running {
            self.done(work, Settlement::Spill { token });
            self.park_behind(work);
        }
        self.settle_batches().await
    }

    /// All that wait behind a work leave for the database, whatever batch they came with: if some stayed, they would
    /// overtake those that left.
    pub(super) fn park_behind(&mut self, work: &Work) {
        for behind in self.queues.park(work.key.as_deref()) {
            self.done(&behind, Settlement::Park);
        }
    }

    /// Claimed by event, and everything waits behind slow events: give those that wait back.
    pub(super) fn park_waiting(&mut self) {
        let mut slow: Vec<Work> = Vec::new();
        for work in self.running.values_mut().flat_map(|job| &mut job.works) {
            work.detached = true;
            slow.push(work.clone());
        }
        for work in &slow {
            self.park_behind(work);
        }
    }
}
