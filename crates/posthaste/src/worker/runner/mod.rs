//! One runner: claim, deliver, settle, over one lane or over the due deliveries of a subscription.
//!
//! Claims and settlements of a runner happen one after the other in its own task, never side by side: a page is read
//! either before or after a key is parked, so an event can never overtake an earlier one of its key.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::dispatch::{KeyQueues, Source, Work};
use crate::error::Result;
use crate::id::Token;
use crate::lease::{Batch, DeliverySettlement, Lane, Trouble};
use crate::observe::Bell;
use crate::page::Report;
use crate::store::{BatchRef, Cursor};
use crate::wake::Idle;

use super::Context;
use rest::Rest;

mod claiming;
mod delivering;
mod recording;
mod rest;
mod settling;
mod stopping;

/// How many batches a runner works on at once: the next is claimed while the last events of the former finish.
const OPEN_BATCHES: usize = 2;
/// How many pages of a lane are under way at once, if the sink allows it: one while the next one follows.
const PAGES_AT_ONCE: usize = OPEN_BATCHES;
/// A batch whose last events take longer than this, while others wait, is closed; the slow ones go on as deliveries.
const SLOW_AFTER: Duration = Duration::from_millis(500);
/// Claimed by event: what was handled is recorded after this time.
const RECORD_AFTER: Duration = Duration::from_millis(5);
/// While the database is away it is asked again after this time at the latest.
const LONGEST_BACKOFF: Duration = Duration::from_secs(2);
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
    /// Claimed by event: the whole page, what of it was handled, and since when something is not recorded.
    seqs: Vec<i64>,
    handled: HashSet<i64>,
    unrecorded_since: Option<Instant>,
    /// Events of it that go on as deliveries under a token of their own, once it is settled.
    spilled: Option<(Token, usize)>,
}

impl OpenBatch {
    /// Whether a work is part of it. The same batch can be here twice, if its lease ran out and it was claimed again.
    fn has(&self, work: &Work) -> bool {
        work.source == Source::Batch(self.batch.number) && work.token == self.batch.token
    }

    /// Nothing is left to do about this event.
    fn note_handled(&mut self, seq: i64) {
        self.remaining -= 1;
        if !self.seqs.is_empty() {
            self.handled.insert(seq);
            self.unrecorded_since.get_or_insert_with(Instant::now);
        }
    }
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
    jobs: JoinSet<(u64, Vec<Report>)>,
    running: HashMap<u64, Job>,
    next_job: u64,
    /// Keys with an event in an open batch that was not delivered: later ones of the key must not start.
    parked: HashMap<String, usize>,
    settlements: Vec<DeliverySettlement>,
    cursor: Cursor,
    idle: Idle,
    rest: Rest,
    /// How often the bell had rung when the last turn began, and when a claim began that left nothing to claim.
    rung: u64,
    caught_up: Option<u64>,
    /// When a page last came back.
    page_ended: Option<Instant>,
    lost: bool,
    finished: bool,
    last_reclaim: Option<Instant>,
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
            rest: Rest::default(),
            rung: 0,
            caught_up: None,
            page_ended: None,
            lost: false,
            finished: false,
            last_reclaim: None,
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
                    (self.cursor, self.caught_up) = (Cursor::Unknown, None);
                    pause(backoff, &stop).await;
                    backoff = (backoff * 2).min(LONGEST_BACKOFF);
                }
            }
        }
        self.wind_up(&stop).await
    }

    async fn turn(&mut self, stop: &CancellationToken) -> Result<()> {
        let rung = self.bell().count();
        self.rung = rung;
        self.collect();
        let delivered = self.delivered_batch();
        match delivered {
            Some(_) => self.settle_deliveries().await?,
            None => self.settle().await?,
        }
        self.start();
        if self.lost {
            return Ok(());
        }
        if let Some(batch) = delivered {
            match self.rest.left() {
                Some(left) => self.wait(rung, left, stop).await,
                None => self.claim_beside(batch, rung, stop).await?,
            }
            return Ok(());
        }
        let record = self.record_handled().await?;
        let wait = match self.has_room().then(|| self.may_claim()) {
            Some(Err(pause)) => pause.min(self.close_troubled_batch().await?),
            Some(Ok(turn)) => {
                let claimed = self.claim().await?;
                drop(turn);
                if claimed {
                    return Ok(());
                }
                self.pause_when_idle().await?.min(self.close_troubled_batch().await?)
            }
            None => self.close_slow_batch().await?,
        };
        self.start();
        self.wait(rung, wait.min(record), stop).await;
        Ok(())
    }

    /// Claims the next batch while one that was delivered is settled; unless nobody has rung since there was nothing to claim.
    async fn claim_beside(&mut self, delivered: BatchRef, rung: u64, stop: &CancellationToken) -> Result<()> {
        let claims = self.caught_up != Some(rung);
        if !self.settle_and_claim(delivered, claims).await? && !self.lost {
            let record = self.record_handled().await?;
            let wait = self.pause_when_idle().await?.min(self.close_troubled_batch().await?);
            self.start();
            self.wait(rung, wait.min(record), stop).await;
        }
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
        let hears_bell = self.has_room() && context.pace.wait(&context.reader()).is_none();
        tokio::select! {
            Some(done) = self.jobs.join_next(), if !self.jobs.is_empty() => self.job_done(done),
            () = self.rest.then_rung(&bell, rung), if hears_bell => {}
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
}

async fn pause(duration: Duration, stop: &CancellationToken) {
    tokio::select! {
        () = tokio::time::sleep(duration) => {}
        () = stop.cancelled() => {}
    }
}
