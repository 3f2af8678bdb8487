//! The runner of a `strict` subscription: the whole of it in order. A failing event holds everything behind it; at the
//! limit it becomes a dead letter, and the rest goes on.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;

use crate::error::Result;
use crate::event::Event;
use crate::failpoint::{Point, reached};
use crate::id::Token;
use crate::lease::{Batch, ClaimedEvent, Held, Lane, Settlement, Trouble};
use crate::observe::add;
use crate::outcome::Outcome;
use crate::page::{Page, Report};
use crate::store::{BatchRef, Cursor, Fresh, Hold};
use crate::wake::Idle;

use super::Context;
use super::pace::in_pace;
use super::runner::Ended;

pub(super) struct StrictRunner {
    pub(super) context: Arc<Context>,
    pub(super) lane: Lane,
    pub(super) token: Token,
}

/// How the handling of a batch ended.
enum Handled {
    Finished,
    LeaseLost,
    Stopped,
}

impl StrictRunner {
    pub(super) async fn run(self, unfinished: Vec<Batch>, stop: CancellationToken) -> Ended {
        let mut unfinished: std::collections::VecDeque<Batch> = unfinished.into();
        let (mut cursor, mut idle) = (Cursor::Unknown, Idle::new());
        while !stop.is_cancelled() {
            // Before the look, so that a ring during it is heard.
            let rung = self.context.door.bell.count();
            let next = match unfinished.pop_front() {
                Some(batch) => Ok(Fresh::Batch(batch)),
                None => self.claim(&mut cursor, &stop).await,
            };
            match self.turn(next, rung, &mut idle, &stop).await {
                Ok(None) => {}
                Ok(Some(Ended::Stopped)) => break,
                Ok(Some(ended)) => return ended,
                Err(error) => {
                    // What is unfinished is taken over again, as after a crash.
                    self.context.trouble(&error);
                    break;
                }
            }
        }
        if let Err(error) =
            self.context.store.release_lane(&self.context.reader(), self.lane, self.token).await
        {
            self.context.trouble(&error);
        }
        Ended::Stopped
    }

    async fn claim(&self, cursor: &mut Cursor, stop: &CancellationToken) -> Result<Fresh> {
        let context = &self.context;
        if let Some(pause) = context.pace.wait(&context.reader()) {
            self.sleep(pause, stop).await;
            return Ok(Fresh::Again);
        }
        let (reader, holder) = (in_pace(&context.reader()), context.holder());
        reached(Point::Claiming);
        context.store.claim_fresh(&reader, self.lane, Some(self.token), &holder, cursor).await
    }

    async fn turn(
        &self,
        next: Result<Fresh>,
        rung: u64,
        idle: &mut Idle,
        stop: &CancellationToken,
    ) -> Result<Option<Ended>> {
        match next? {
            Fresh::Batch(batch) => {
                reached(Point::Claimed);
                idle.reset();
                self.context.pace.charge(&self.context.reader(), batch.events.len());
                match self.handle(batch, stop).await? {
                    Handled::Finished => Ok(None),
                    Handled::LeaseLost => Ok(Some(Ended::LaneLost)),
                    Handled::Stopped => Ok(Some(Ended::Stopped)),
                }
            }
            Fresh::Nothing => {
                idle.found_nothing();
                self.wait(idle, rung, stop).await?;
                Ok(None)
            }
            Fresh::Again | Fresh::Deliveries(_) => Ok(None),
            Fresh::LaneLost => Ok(Some(Ended::LaneLost)),
            Fresh::LaneFinished => Ok(Some(Ended::LaneFinished)),
        }
    }

    async fn wait(&self, idle: &mut Idle, rung: u64, stop: &CancellationToken) -> Result<()> {
        let context = &self.context;
        let poll = context.reader().settings.poll_interval;
        let pause = idle.next_pause(&context.door, &*context.store, poll).await?;
        tokio::select! {
            () = context.door.bell.wait_past(rung) => {}
            () = tokio::time::sleep(pause) => {}
            () = stop.cancelled() => {}
        }
        Ok(())
    }

    /// Handles the events of a batch one after the other.
    async fn handle(&self, batch: Batch, stop: &CancellationToken) -> Result<Handled> {
        let key = BatchRef::to(&batch);
        // Once a worker was lost with this batch, every step is recorded before it is taken, so that an event that
        // kills its worker is found and nothing else is blamed.
        let careful = batch.claims > 1;
        let mut held = batch.held.unwrap_or_default();
        let mut troubles = Vec::new();
        self.sleep(held.wait, stop).await;
        if stop.is_cancelled() {
            // Nothing was begun. What holds the batch stays written, with its time and its error.
            return Ok(Handled::Stopped);
        }
        let mut done_to = held.done_to;
        for claimed in &batch.events {
            if !claimed.elsewhere && claimed.wait.is_none() {
                let step = Step { key, careful, done_to, claimed };
                match self.attempt_until_settled(&step, held, stop).await? {
                    Ok(()) => {}
                    Err(handled) => return Ok(handled),
                }
            } else if let (false, Some(until)) = (claimed.elsewhere, claimed.event.available_at) {
                troubles.push(trouble(&claimed.event, Settlement::Delay { until }, Held::default()));
            }
            held = Held::default();
            done_to = claimed.event.seq;
        }
        let context = &self.context;
        let (reader, holder) = (context.reader(), context.holder());
        reached(Point::Settling);
        match self.insist(|| context.store.settle_batch(&reader, key, &troubles, &holder)).await? {
            true => {
                reached(Point::Settled);
                add(&context.counters.batches, 1);
                Ok(Handled::Finished)
            }
            false => Ok(self.lease_lost()),
        }
    }

    /// Tries one event until it is delivered or dead, holding everything behind it.
    async fn attempt_until_settled(
        &self,
        step: &Step<'_>,
        held: Held,
        stop: &CancellationToken,
    ) -> Result<Result<(), Handled>> {
        let mut held = Held { wait: Duration::ZERO, ..held };
        loop {
            let settings = self.context.reader().settings;
            if held.attempts >= settings.max_attempts {
                let error = format!("gave up after {} of {} attempts", held.attempts, settings.max_attempts);
                return self.bury(step, error, held).await;
            }
            held.attempts += 1;
            if step.careful && !self.hold(step, held, None, &[]).await? {
                return Ok(Err(self.lease_lost()));
            }
            let Some(Report { outcome, steps }) = self.attempt(&step.claimed.event, held, stop).await else {
                self.context.availability.probe_again();
                held.attempts -= 1;
                return Ok(Err(self.stopped(step, held).await?));
            };
            held.steps = steps;
            if !matches!(outcome, Outcome::Unavailable { .. }) {
                self.context.availability.came_back();
            }
            match Settlement::of(outcome, held.attempts, &settings) {
                Settlement::Delivered => return self.pass(step).await,
                Settlement::Dead { error } => return self.bury(step, error, held).await,
                Settlement::Retry { delay, error } => {
                    let retry = Settlement::Retry { delay, error: error.clone() };
                    self.context.note(&step.claimed.event, &retry);
                    if !self.hold(step, Held { wait: delay, ..held }, Some(error), &[]).await? {
                        return Ok(Err(self.lease_lost()));
                    }
                    self.sleep(delay, stop).await;
                    if stop.is_cancelled() {
                        // The hold is written, with its time and its error; to write it again would forget both.
                        return Ok(Err(Handled::Stopped));
                    }
                }
                _ => {
                    held.attempts -= 1;
                    self.wait_until_back(stop).await;
                }
            }
            if stop.is_cancelled() {
                return Ok(Err(self.stopped(step, held).await?));
            }
        }
    }

    /// One attempt, once a slot and the lease allow it. `None`: stopped before it began, or cut off after the grace
    /// time of a stop; then nothing is known of it, and it is made again.
    async fn attempt(&self, event: &Event, held: Held, stop: &CancellationToken) -> Option<Report> {
        let context = &self.context;
        loop {
            if stop.is_cancelled() || !context.leases.is_held(self.token) {
                return None;
            }
            match context.slots.take() {
                Some(_slot) if context.leases.may_start(self.token) => {
                    let page = Page::for_attempts([(Arc::new(event.clone()), held.attempts, held.steps)]);
                    return tokio::select! {
                        reports = context.hand_over(page, None) => reports.into_iter().next(),
                        () = out_of_patience(stop, context.grace) => None,
                    };
                }
                _ => tokio::time::sleep(Duration::from_millis(5)).await,
            }
        }
    }

    async fn pass(&self, step: &Step<'_>) -> Result<Result<(), Handled>> {
        self.context.note(&step.claimed.event, &Settlement::Delivered);
        let passed = Step { done_to: step.claimed.event.seq, ..*step };
        if step.careful && !self.hold(&passed, Held::default(), None, &[]).await? {
            return Ok(Err(self.lease_lost()));
        }
        Ok(Ok(()))
    }

    /// The dead letter commits before the next event is sent: otherwise a takeover could still deliver it, late.
    async fn bury(&self, step: &Step<'_>, error: String, held: Held) -> Result<Result<(), Handled>> {
        let settlement = Settlement::Dead { error };
        self.context.note(&step.claimed.event, &settlement);
        let passed = Step { done_to: step.claimed.event.seq, ..*step };
        let trouble = trouble(&step.claimed.event, settlement, held);
        match self.hold(&passed, Held::default(), None, &[trouble]).await? {
            true => Ok(Ok(())),
            false => Ok(Err(self.lease_lost())),
        }
    }

    async fn hold(
        &self,
        step: &Step<'_>,
        held: Held,
        error: Option<String>,
        troubles: &[Trouble],
    ) -> Result<bool> {
        let context = &self.context;
        let Held { attempts, steps, wait: delay, .. } = held;
        let hold = Hold { done_to: step.done_to, attempts, steps, delay, error };
        let (reader, holder) = (context.reader(), context.holder());
        reached(Point::Holding);
        let held =
            self.insist(|| context.store.hold_batch(&reader, step.key, &hold, troubles, &holder)).await;
        reached(Point::Held);
        held
    }

    /// Writes again when the database refuses, while the lease is held: giving up would repeat what was delivered.
    async fn insist<F: Future<Output = Result<bool>>>(&self, write: impl Fn() -> F) -> Result<bool> {
        let mut pause = Duration::from_millis(50);
        loop {
            match write().await {
                Err(error) if self.context.leases.may_start(self.token) => {
                    self.context.trouble(&error);
                    tokio::time::sleep(pause).await;
                    pause = (pause * 2).min(Duration::from_secs(2));
                }
                done => return done,
            }
        }
    }

    /// Records how far the batch came, so that the next owner repeats nothing.
    async fn stopped(&self, step: &Step<'_>, held: Held) -> Result<Handled> {
        if !self.context.leases.is_held(self.token) {
            return Ok(self.lease_lost());
        }
        self.hold(step, held, None, &[]).await?;
        Ok(Handled::Stopped)
    }

    fn lease_lost(&self) -> Handled {
        self.context.lease_lost("a batch", 1);
        Handled::LeaseLost
    }

    async fn wait_until_back(&self, stop: &CancellationToken) {
        let availability = &self.context.availability;
        availability.went_away();
        add(&self.context.counters.unavailable, 1);
        let until = Instant::now() + availability.wait().unwrap_or_default();
        self.sleep(until.saturating_duration_since(Instant::now()), stop).await;
        availability.admit();
    }

    async fn sleep(&self, duration: Duration, stop: &CancellationToken) {
        tokio::select! {
            () = tokio::time::sleep(duration) => {}
            () = stop.cancelled() => {}
        }
    }
}

/// One event of a batch and how far the batch has come.
#[derive(Clone, Copy)]
struct Step<'a> {
    key: BatchRef,
    careful: bool,
    done_to: i64,
    claimed: &'a ClaimedEvent,
}

async fn out_of_patience(stop: &CancellationToken, grace: Duration) {
    stop.cancelled().await;
    tokio::time::sleep(grace).await;
}

fn trouble(event: &Event, settlement: Settlement, held: Held) -> Trouble {
    let Held { attempts, steps, .. } = held;
    Trouble { seq: event.seq, event_id: event.id, key: None, settlement, attempts, steps, solo: false }
}
