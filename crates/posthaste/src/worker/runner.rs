//! One runner: claim, deliver, settle, over one lane or over the due deliveries of a subscription.
//!
//! Claims and settlements of a runner happen one after the other in its own task, never side by side: a page is read
//! either before or after a key is parked, so an event can never overtake an earlier one of its key.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::dispatch::{KeyQueues, Source, Work};
use crate::error::Result;
use crate::id::Token;
use crate::lease::{
    Batch, ClaimedEvent, DeliveryClaim, DeliverySettlement, Lane, Reader, Settlement, Trouble,
};
use crate::observe::{Bell, add};
use crate::outcome::Outcome;
use crate::sink::DeliveryKey;
use crate::store::{BatchRef, Cursor, Fresh};
use crate::wake::Idle;

use super::Context;

/// How many batches a runner works on at once: the next is claimed while the last events of the former finish.
const OPEN_BATCHES: usize = 2;
/// A batch whose last events take longer than this, while others wait, is closed; the slow ones go on as deliveries.
const SLOW_AFTER: Duration = Duration::from_millis(500);
/// How often to look for batches whose worker was lost (order `none`).
const RECLAIM_EVERY: Duration = Duration::from_millis(750);

/// What a runner reads from.
#[derive(Debug, Clone, Copy)]
pub(super) enum Reads {
    /// A lane it owns (`key` order).
    Owned(Lane, Token),
    /// The lane all claimers share (order `none`).
    Shared(Lane),
    /// Deliveries that are due.
    Due,
}

/// How a runner ended.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Ended {
    Stopped,
    LaneLost,
    LaneFinished,
}

/// A batch some of whose events are not settled yet.
#[derive(Debug)]
struct OpenBatch {
    batch: BatchRef,
    remaining: usize,
    troubles: Vec<Trouble>,
    since: Instant,
    /// Events of it that go on as deliveries under a token of their own, once it is settled.
    spilled: Option<(Token, usize)>,
}

/// Works handed to the receiver together.
struct Job {
    works: Vec<Work>,
}

pub(super) struct Runner {
    context: Arc<Context>,
    reads: Reads,
    queues: KeyQueues,
    open: VecDeque<OpenBatch>,
    jobs: JoinSet<(u64, Vec<Outcome>)>,
    running: HashMap<u64, Job>,
    next_job: u64,
    /// Keys with an event in an open batch that was not delivered: later ones of the key must not start.
    parked: HashMap<String, usize>,
    settlements: Vec<DeliverySettlement>,
    cursor: Cursor,
    idle: Idle,
    lost: bool,
    finished: bool,
    last_reclaim: Option<Instant>,
    /// The answer to a claim in our own lane was lost: it may have happened.
    uncertain: bool,
    /// Keys of events that were left running when the patience of a stop was over.
    left: Vec<String>,
}

impl Runner {
    pub(super) fn new(context: Arc<Context>, reads: Reads) -> Self {
        Self {
            reads,
            queues: KeyQueues::new(context.receiver.takes_pages()),
            open: VecDeque::new(),
            jobs: JoinSet::new(),
            running: HashMap::new(),
            next_job: 0,
            parked: HashMap::new(),
            settlements: Vec::new(),
            cursor: Cursor::Unknown,
            idle: Idle::new(),
            lost: false,
            finished: false,
            last_reclaim: None,
            uncertain: false,
            left: Vec::new(),
            context,
        }
    }

    /// Takes up what a former owner of the lane left unfinished.
    pub(super) fn take_over(&mut self, unfinished: Vec<Batch>) {
        for batch in unfinished {
            self.take_in(batch);
        }
    }

    /// The main path: settle what is done, start what may start, claim what there is, wait for the next thing.
    pub(super) async fn run(mut self, stop: CancellationToken) -> Ended {
        let mut backoff = Duration::from_millis(50);
        while !stop.is_cancelled() && !self.lost && !self.finished {
            match self.turn(&stop).await {
                Ok(()) => backoff = Duration::from_millis(50),
                Err(error) => {
                    self.context.trouble(&error);
                    self.cursor = Cursor::Unknown;
                    pause(backoff, &stop).await;
                    backoff = (backoff * 2).min(Duration::from_secs(5));
                }
            }
        }
        self.wind_up(&stop).await
    }

    async fn turn(&mut self, stop: &CancellationToken) -> Result<()> {
        let rung = self.bell().count();
        self.collect();
        self.settle().await?;
        self.start();
        if self.lost {
            return Ok(());
        }
        let wait = match self.has_room() {
            true if self.claim().await? => return Ok(()),
            true => self.pause_when_idle().await?.min(self.close_troubled_batch().await?),
            false => self.close_slow_batch().await?,
        };
        self.start();
        self.wait(rung, wait, stop).await;
        Ok(())
    }

    /// Waits for whatever comes first: a finished job, a ring, a free slot, the pause, or the stop.
    async fn wait(&mut self, rung: u64, wait: Duration, stop: &CancellationToken) {
        let (context, bell) = (self.context.clone(), self.bell());
        let mut wait = wait;
        if let Some(probe) = context.availability.wait().filter(|_| self.queues.startable() > 0) {
            wait = wait.min(probe.max(Duration::from_millis(1)));
        } else if self.queues.startable() > 0 {
            wait = wait.min(Duration::from_millis(20));
        }
        let hears_bell = self.has_room();
        tokio::select! {
            Some(done) = self.jobs.join_next(), if !self.jobs.is_empty() => self.job_done(done),
            () = bell.wait_past(rung), if hears_bell => {}
            () = context.slots.freed(), if self.queues.startable() > 0 => {}
            () = tokio::time::sleep(wait) => {}
            () = stop.cancelled() => {}
        }
    }

    /// What tells this runner that there may be something new.
    fn bell(&self) -> Arc<Bell> {
        match self.reads {
            Reads::Due => self.context.due_bell.clone(),
            _ => self.context.door.bell.clone(),
        }
    }

    // --- claiming

    fn has_room(&self) -> bool {
        let reader = self.context.reader();
        let held = self.queues.startable() + self.queues.waiting() + self.running_works();
        let limit = match self.reads {
            Reads::Due => reader.settings.concurrency as usize,
            _ => 2 * reader.settings.batch_size as usize,
        };
        let away = self.context.availability.is_away() && held > 0;
        self.open.len() < OPEN_BATCHES && held < limit && !away
    }

    fn running_works(&self) -> usize {
        self.running.values().map(|job| job.works.len()).sum()
    }

    /// Claims more work. `false`: there is none now.
    async fn claim(&mut self) -> Result<bool> {
        let reader = self.context.reader();
        match self.reads {
            Reads::Due => self.claim_due(&reader).await,
            Reads::Owned(lane, token) => {
                if self.uncertain && self.take_up_lost_claims(&reader, lane, token).await? {
                    return Ok(true);
                }
                // Until the answer is here.
                self.uncertain = true;
                let found = self.claim_fresh(&reader, lane, Some(token)).await?;
                self.uncertain = false;
                Ok(found)
            }
            Reads::Shared(lane) => {
                Ok(self.reclaim(&reader).await? || self.claim_fresh(&reader, lane, None).await?)
            }
        }
    }

    /// A claim that committed although its answer never came is ours: left alone, its events would wait for a takeover
    /// while later ones of their keys overtake them.
    async fn take_up_lost_claims(&mut self, reader: &Reader, lane: Lane, token: Token) -> Result<bool> {
        let held = self.context.store.held_batches(reader, lane, token).await?;
        self.uncertain = false;
        let known: Vec<i64> = self.open.iter().map(|open| open.batch.number).collect();
        let lost: Vec<Batch> = held.into_iter().filter(|batch| !known.contains(&batch.number)).collect();
        let found = !lost.is_empty();
        self.take_over(lost);
        Ok(found)
    }

    async fn claim_fresh(&mut self, reader: &Reader, lane: Lane, owner: Option<Token>) -> Result<bool> {
        let since = Instant::now();
        let context = self.context.clone();
        let holder = context.holder();
        let fresh = context.store.claim_fresh(reader, lane, owner, &holder, &mut self.cursor).await?;
        match fresh {
            Fresh::Batch(batch) => {
                if owner.is_none() {
                    context.leases.hold(batch.token, 1, since, holder.lease);
                }
                self.take_in(batch);
            }
            Fresh::Deliveries(claims) => self.take_in_deliveries(claims, since),
            Fresh::Again => {}
            Fresh::Nothing => return Ok(false),
            Fresh::LaneLost => self.lost = true,
            Fresh::LaneFinished => self.finished = true,
        }
        self.idle.reset();
        Ok(true)
    }

    async fn reclaim(&mut self, reader: &Reader) -> Result<bool> {
        if self.last_reclaim.is_some_and(|last| last.elapsed() < RECLAIM_EVERY) {
            return Ok(false);
        }
        self.last_reclaim = Some(Instant::now());
        let since = Instant::now();
        let context = self.context.clone();
        let Some(batch) = context.store.reclaim_batch(reader, &context.holder()).await? else {
            return Ok(false);
        };
        context.leases.hold(batch.token, 1, since, context.holder().lease);
        self.take_in(batch);
        self.last_reclaim = None;
        Ok(true)
    }

    async fn claim_due(&mut self, reader: &Reader) -> Result<bool> {
        let since = Instant::now();
        let context = self.context.clone();
        let held = self.queues.startable() + self.queues.waiting() + self.running_works();
        let limit = (reader.settings.concurrency as usize).saturating_sub(held).max(1);
        let limit = u32::try_from(limit).unwrap_or(u32::MAX).min(reader.settings.batch_size);
        let solo_allowed = self.solo_allowed();
        let claims = context.store.claim_deliveries(reader, &context.holder(), limit, solo_allowed).await?;
        let found = !claims.is_empty();
        self.take_in_deliveries(claims, since);
        Ok(found)
    }

    /// Whether an event that may kill its worker may be claimed: not beside another one.
    fn solo_allowed(&self) -> bool {
        let running = self.running.values().flat_map(|job| &job.works).any(|work| work.solo);
        !running && !self.queues.any_solo()
    }

    fn take_in(&mut self, batch: Batch) {
        let source = Source::Batch(batch.number);
        let key = BatchRef { lane: batch.lane, number: batch.number, token: batch.token };
        let remaining = batch.events.len();
        self.open.push_back(OpenBatch {
            batch: key,
            remaining,
            troubles: Vec::new(),
            since: Instant::now(),
            spilled: None,
        });
        let keyed = self.context.reader().keyed();
        for claimed in batch.events {
            self.take_in_claimed(claimed, source, batch.token, keyed);
        }
    }

    fn take_in_claimed(&mut self, claimed: ClaimedEvent, source: Source, token: Token, keyed: bool) {
        let ClaimedEvent { event, blocked, elsewhere, wait } = claimed;
        let delayed = event.available_at;
        let key = event.key.clone().filter(|_| keyed && delayed.is_none());
        let behind = key.as_ref().is_some_and(|key| blocked || self.parked.contains_key(key));
        let work =
            Work { event: Arc::new(event), key, attempts: 1, source, token, solo: false, detached: false };
        match delayed {
            _ if elsewhere => self.leave_out(source),
            Some(until) if wait.is_some() => self.done(&work, Settlement::Delay { until }),
            _ if behind => self.done(&work, Settlement::Park),
            _ => self.queues.add(work),
        }
    }

    /// The event has a delivery row already: the batch has nothing to say about it.
    fn leave_out(&mut self, source: Source) {
        if let Some(open) = self.open.iter_mut().find(|open| Source::Batch(open.batch.number) == source) {
            open.remaining -= 1;
        }
    }

    fn take_in_deliveries(&mut self, claims: Vec<DeliveryClaim>, since: Instant) {
        let lease = self.context.holder().lease;
        for claim in claims {
            let DeliveryClaim { event, key, attempts, token, solo } = claim;
            self.context.leases.hold(token, 1, since, lease);
            self.queues.add(Work {
                event: Arc::new(event),
                key,
                attempts,
                source: Source::Delivery,
                token,
                solo,
                detached: false,
            });
        }
    }

    async fn pause_when_idle(&mut self) -> Result<Duration> {
        let context = self.context.clone();
        let poll = context.reader().settings.poll_interval;
        if matches!(self.reads, Reads::Due) {
            let due = context.store.next_due(&context.reader(), self.solo_allowed()).await?;
            return Ok(due.unwrap_or(poll).min(poll).max(Duration::from_millis(1)));
        }
        let pause = self.idle.next_pause(&context.door, &*context.store, poll).await?;
        Ok(if matches!(self.reads, Reads::Shared(_)) { pause.min(RECLAIM_EVERY) } else { pause })
    }

    // --- delivering

    fn start(&mut self) {
        if self.context.receiver.takes_pages() {
            return self.start_page();
        }
        while self.queues.startable() > 0 {
            let Some(slot) = self.context.slots.take() else { return };
            let Some(work) = self.next_to_start() else { return };
            self.spawn(vec![work], slot);
        }
    }

    /// Hands a page over. In `key` order one at a time, so that pages cannot overtake each other.
    fn start_page(&mut self) {
        let keyed = self.context.reader().keyed();
        let size = self.context.reader().settings.batch_size as usize;
        while self.queues.startable() > 0 && (!keyed || self.running.is_empty()) {
            let Some(slot) = self.context.slots.take() else { return };
            let works = self.next_page(size);
            if works.is_empty() {
                return;
            }
            self.spawn(works, slot);
        }
    }

    fn next_page(&mut self, size: usize) -> Vec<Work> {
        let Some(first) = self.next_to_start() else { return Vec::new() };
        let mut works = vec![first];
        // A probe is one event: the receiver was away a moment ago.
        while works.len() < size && !self.context.availability.is_away() {
            let Some(work) = self.next_to_start() else { break };
            works.push(work);
        }
        works
    }

    /// The next work whose lease is safe. One whose lease was lost is dropped: somebody else has it.
    fn next_to_start(&mut self) -> Option<Work> {
        while let Some(work) = self.queues.next() {
            if !self.context.leases.is_held(work.token) {
                add(&self.context.counters.leases_lost, 1);
                self.drop_lost(&work);
                continue;
            }
            if !self.context.leases.may_start(work.token) || !self.context.availability.admit() {
                self.queues.put_back(work);
                return None;
            }
            return Some(work);
        }
        None
    }

    fn drop_lost(&mut self, work: &Work) {
        let behind = self.queues.park(work.key.as_deref());
        add(&self.context.counters.leases_lost, behind.len() as u64);
        if matches!(self.reads, Reads::Owned(..)) && work.source != Source::Delivery {
            self.lost = true;
        } else if let Source::Batch(number) = work.source {
            self.open.retain(|open| open.batch.number != number);
        }
    }

    fn spawn(&mut self, works: Vec<Work>, slot: crate::dispatch::Slot) {
        let id = self.next_job;
        self.next_job += 1;
        let context = self.context.clone();
        let events: Vec<_> = works.iter().map(|work| work.event.clone()).collect();
        let delivery = works.first().map(|work| self.delivery_key(work));
        self.running.insert(id, Job { works });
        self.jobs.spawn(async move {
            let outcomes = context.hand_over(&events, delivery.as_ref()).await;
            drop(slot);
            (id, outcomes)
        });
    }

    fn delivery_key(&self, work: &Work) -> DeliveryKey {
        let reader = self.context.reader();
        DeliveryKey {
            subscription: reader.id,
            keyed: reader.keyed(),
            dead_blocks: reader.dead_blocks(),
            seq: work.event.seq,
            token: work.token,
        }
    }

    // --- settling

    fn collect(&mut self) {
        while let Some(done) = self.jobs.try_join_next() {
            self.job_done(done);
        }
    }

    fn job_done(&mut self, done: Result<(u64, Vec<Outcome>), tokio::task::JoinError>) {
        // A job never panics (the receiver's panics are caught) and is aborted only after the runner has let go.
        let Ok((id, outcomes)) = done else { return };
        let Some(job) = self.running.remove(&id) else { return };
        let away = outcomes.iter().any(|outcome| matches!(outcome, Outcome::Unavailable { .. }));
        let mut again: Vec<Work> = Vec::new();
        let mut failed_keys: Vec<String> = Vec::new();
        for (work, outcome) in job.works.into_iter().zip(outcomes) {
            // What follows an event of its key in this page goes where that one went: otherwise it would overtake it.
            let parked = work.key.as_ref().is_some_and(|key| failed_keys.contains(key));
            let waits = work.key.is_some() && again.iter().any(|earlier| earlier.key == work.key);
            match outcome {
                Outcome::Delivered => self.work_done(work, outcome),
                _ if parked => self.done(&work, Settlement::Park),
                Outcome::Unavailable { .. } => again.push(work),
                _ if waits => again.push(work),
                outcome => {
                    failed_keys.extend(work.key.clone());
                    self.work_done(work, outcome);
                }
            }
        }
        self.note_availability(away);
        for work in again.into_iter().rev() {
            self.queues.put_back(work);
        }
    }

    fn note_availability(&self, away: bool) {
        if away {
            add(&self.context.counters.unavailable, 1);
            self.context.availability.went_away();
        } else {
            self.context.availability.came_back();
        }
    }

    fn work_done(&mut self, work: Work, outcome: Outcome) {
        let settlement = Settlement::of(outcome, work.attempts, &self.context.reader().settings);
        if work.detached {
            return self.done(&work, settlement);
        }
        if settlement == Settlement::Delivered {
            self.done(&work, settlement);
            self.queues.release(work.key.as_deref());
            return;
        }
        // The later events of the key queue behind it in the database, in the same transaction: also after a dead
        // letter, which must be committed before the next one is sent.
        self.done(&work, settlement);
        self.park_behind(&work);
    }

    /// Notes the settlement of one work; `settle` writes it.
    fn done(&mut self, work: &Work, settlement: Settlement) {
        self.context.count(&settlement);
        match work.source {
            Source::Delivery => {
                let (seq, token, key) = (work.event.seq, work.token, work.key.clone());
                self.settlements.push(DeliverySettlement { seq, token, key, settlement });
            }
            Source::Batch(number) => self.done_in_batch(number, work, settlement),
        }
    }

    fn done_in_batch(&mut self, number: i64, work: &Work, settlement: Settlement) {
        let Some(open) = self.open.iter_mut().find(|open| open.batch.number == number) else { return };
        open.remaining -= 1;
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
        let (seq, event_id, key) = (work.event.seq, work.event.id, work.key.clone());
        open.troubles.push(Trouble { seq, event_id, key, settlement, attempts, solo: false });
    }

    async fn settle(&mut self) -> Result<()> {
        self.settle_batches().await?;
        self.settle_deliveries().await
    }

    /// Settles finished batches: in an owned lane in number order, so that a parked event is never written before
    /// the one it waits for.
    async fn settle_batches(&mut self) -> Result<()> {
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
            let context = self.context.clone();
            let (batch, troubles) = (open.batch, &open.troubles);
            let held =
                context.store.settle_batch(&context.reader(), batch, troubles, &context.holder()).await?;
            self.batch_settled(index, held);
        }
        Ok(())
    }

    fn batch_settled(&mut self, index: usize, held: bool) {
        let Some(open) = self.open.remove(index) else { return };
        add(&self.context.counters.batches, u64::from(held));
        if let Some((token, works)) = open.spilled.filter(|_| held) {
            // From now on there are rows to renew.
            self.context.leases.hold(token, works, Instant::now(), self.context.holder().lease);
        }
        for key in open.troubles.iter().filter_map(|trouble| trouble.key.as_ref()) {
            if let Some(count) = self.parked.get_mut(key) {
                *count -= 1;
                if *count == 0 {
                    self.parked.remove(key);
                }
            }
        }
        if !open.troubles.is_empty() {
            self.context.due_bell.ring();
        }
        match self.reads {
            Reads::Owned(..) if !held => self.lost = true,
            Reads::Owned(..) => {}
            _ => self.context.leases.let_go(open.batch.token),
        }
        if !held {
            self.context.lease_lost("a batch", 1);
        }
    }

    async fn settle_deliveries(&mut self) -> Result<()> {
        // A transactional handler has settled what it delivered.
        let transactional = matches!(self.context.receiver, crate::sink::Receiver::Transactional(_));
        let by_handler = |s: &DeliverySettlement| transactional && s.settlement == Settlement::Delivered;
        let to_write: Vec<_> = self.settlements.iter().filter(|s| !by_handler(s)).cloned().collect();
        if !to_write.is_empty() {
            let written = self.context.store.settle_deliveries(&self.context.reader(), &to_write).await?;
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
    async fn close_troubled_batch(&mut self) -> Result<Duration> {
        match self.open.front() {
            Some(front) if !front.troubles.is_empty() => self.close_slow_batch().await,
            _ => Ok(Duration::MAX),
        }
    }

    /// No room: if the oldest batch only waits for slow events, it is closed, and they go on as deliveries. Returns how
    /// long to wait before looking again.
    async fn close_slow_batch(&mut self) -> Result<Duration> {
        let away = self.context.availability.is_away();
        let Some(front) = self.open.front() else {
            if !away && self.queues.startable() == 0 && self.queues.waiting() > 0 {
                self.park_waiting();
                return Ok(Duration::from_millis(1));
            }
            return Ok(SLOW_AFTER);
        };
        let left = SLOW_AFTER.saturating_sub(front.since.elapsed());
        if away || !left.is_zero() || self.queues.startable() > 0 {
            return Ok(left.max(Duration::from_millis(10)));
        }
        self.spill(front.batch).await?;
        Ok(Duration::from_millis(1))
    }

    async fn spill(&mut self, batch: BatchRef) -> Result<()> {
        let source = Source::Batch(batch.number);
        let token = Token::new();
        let mut running: Vec<Work> = Vec::new();
        for work in
            self.running.values_mut().flat_map(|job| &mut job.works).filter(|work| work.source == source)
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
    fn park_behind(&mut self, work: &Work) {
        for behind in self.queues.park(work.key.as_deref()) {
            self.done(&behind, Settlement::Park);
        }
    }

    /// Claimed by event, and everything waits behind slow events: give those that wait back.
    fn park_waiting(&mut self) {
        let mut slow: Vec<Work> = Vec::new();
        for work in self.running.values_mut().flat_map(|job| &mut job.works) {
            work.detached = true;
            slow.push(work.clone());
        }
        for work in &slow {
            self.park_behind(work);
        }
    }

    // --- winding up

    /// Stops without losing or repeating anything: what runs may finish, what has not started is given back.
    async fn wind_up(mut self, stop: &CancellationToken) -> Ended {
        if self.lost {
            self.let_go_of_deliveries().await;
            return Ended::LaneLost;
        }
        self.finish_running().await;
        self.give_back_queued();
        for attempt in 0..3_u32 {
            match self.settle().await {
                Ok(()) => break,
                Err(error) => {
                    self.context.trouble(&error);
                    tokio::time::sleep(Duration::from_millis(200) * (attempt + 1)).await;
                }
            }
        }
        self.let_go_of_the_rest();
        if let Reads::Owned(lane, token) = self.reads
            && !self.finished
            && let Err(error) = self.context.store.release_lane(&self.context.reader(), lane, token).await
        {
            self.context.trouble(&error);
        }
        if self.finished && !stop.is_cancelled() { Ended::LaneFinished } else { Ended::Stopped }
    }

    /// What could not be settled is left to others. A lease that is renewed with nobody behind it would hold its events
    /// for ever.
    fn let_go_of_the_rest(&mut self) {
        for settlement in self.settlements.drain(..) {
            self.context.leases.let_go(settlement.token);
        }
        if matches!(self.reads, Reads::Shared(_)) {
            for open in self.open.drain(..) {
                self.context.leases.let_go(open.batch.token);
            }
        }
    }

    /// The lane is lost, but deliveries have leases of their own: what is done is settled, what has not started is given
    /// back, and what runs is let go of. A lease that is renewed with nobody behind it would hold its event for ever.
    async fn let_go_of_deliveries(&mut self) {
        self.abort_jobs();
        self.open.clear();
        let running = self.running.drain().flat_map(|(_, job)| job.works);
        let running: Vec<Work> = running.filter(|work| work.source == Source::Delivery).collect();
        self.left.extend(running.iter().filter_map(|work| work.key.clone()));
        self.give_back_queued();
        if let Err(error) = self.settle_deliveries().await {
            self.context.trouble(&error);
        }
        let unsettled = self.settlements.drain(..).map(|settlement| settlement.token);
        for token in running.into_iter().map(|work| work.token).chain(unsettled) {
            self.context.leases.let_go(token);
        }
    }

    async fn finish_running(&mut self) {
        let deadline = tokio::time::Instant::now() + self.context.grace;
        while !self.jobs.is_empty() {
            match tokio::time::timeout_at(deadline, self.jobs.join_next()).await {
                Ok(Some(done)) => self.job_done(done),
                Ok(None) => return,
                Err(_) => return self.leave_running(),
            }
        }
    }

    fn abort_jobs(&mut self) {
        self.jobs.abort_all();
        // If one of them was the probe, another runner must be free to make it.
        self.context.availability.probe_again();
    }

    /// Out of patience: what still runs has an unknown effect, so nothing is said about it. Its lease runs out, and
    /// somebody tries it again.
    fn leave_running(&mut self) {
        self.abort_jobs();
        let left: Vec<Work> = self.running.drain().flat_map(|(_, job)| job.works).collect();
        self.left.extend(left.iter().filter_map(|work| work.key.clone()));
        for work in &left {
            match work.source {
                Source::Delivery => self.context.leases.let_go(work.token),
                Source::Batch(_) => self.done(work, Settlement::Spill { token: Token::new() }),
            }
        }
    }

    fn give_back_queued(&mut self) {
        let mut seen = std::mem::take(&mut self.left);
        for work in self.queues.drain() {
            let behind = work.key.as_ref().is_some_and(|key| seen.contains(key));
            seen.extend(work.key.clone());
            let settlement =
                if behind { Settlement::Park } else { Settlement::GiveBack { delay: Duration::ZERO } };
            self.done(&work, settlement);
        }
    }
}

async fn pause(duration: Duration, stop: &CancellationToken) {
    tokio::select! {
        () = tokio::time::sleep(duration) => {}
        () = stop.cancelled() => {}
    }
}
