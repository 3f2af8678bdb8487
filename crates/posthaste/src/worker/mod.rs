//! Assembly: the only place that chains claim, dispatch and settle, and that spawns tasks.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::dispatch::{Availability, Slots};
use crate::error::{Error, ErrorKind, Result};
use crate::event::Event;
use crate::failpoint::{Point, reached};
use crate::id::{Token, WorkerName};
use crate::lease::{Holder, LaneClaim, Reader, Settlement};
use crate::observe::{Bell, Counters, add};
use crate::outcome::Outcome;
use crate::page::{Page, Report};
use crate::sink::{DeliveryKey, Receiver};
use crate::store::Store;
use crate::subscription::{Order, Subscription};
use crate::wake::Doorkeeper;

mod leases;
mod pace;
mod roster;
mod runner;
mod strict;

use leases::Leases;
use pace::Pace;
pub(crate) use roster::Roster;
use runner::{Ended, Reads, Runner};
use strict::StrictRunner;

/// How often settings are read again and free lanes are looked for.
const LOOK_EVERY: Duration = Duration::from_millis(650);

/// What the runners of one worker share.
#[derive(Debug)]
pub(crate) struct Context {
    store: Arc<dyn Store>,
    reader: watch::Sender<Arc<Reader>>,
    receiver: Receiver,
    worker: WorkerName,
    grace: Duration,
    door: Arc<Doorkeeper>,
    slots: Arc<Slots>,
    availability: Availability,
    leases: Leases,
    pace: Pace,
    /// Rung when a delivery may have become due; shared by all workers of the process.
    due_bell: Arc<Bell>,
    roster: Arc<Roster>,
    counters: Arc<Counters>,
}

impl Context {
    fn reader(&self) -> Arc<Reader> {
        self.reader.borrow().clone()
    }

    fn holder(&self) -> Holder {
        Holder { worker: self.worker.clone(), lease: self.reader().settings.lease }
    }

    /// Hands a page to the receiver, within the time one event may take. A timeout is the receiver's fault only if it
    /// cannot be reached at all; otherwise one bad event would stall everything. What it had marked or reached by then
    /// counts: an event that is known to be delivered is not sent again because another one took too long.
    async fn hand_over(&self, page: Page, delivery: Option<&DeliveryKey>) -> Vec<Report> {
        let timeout = self.reader().settings.timeout;
        let mut page = page.within(timeout);
        reached(Point::Delivering);
        if tokio::time::timeout(timeout, self.receiver.receive(&mut page, delivery)).await.is_err() {
            tracing::warn!(
                subscription = self.reader().name,
                "the receiver took longer than {timeout:?}; asking whether it is there"
            );
            page.mark_rest(&match tokio::time::timeout(timeout, self.receiver.check()).await {
                Ok(Ok(())) => Outcome::retry(format!("took longer than {timeout:?}")),
                Ok(Err(reason)) => Outcome::unavailable(reason),
                Err(_) => Outcome::unavailable("neither the event nor the check came to an end"),
            });
        }
        reached(Point::Delivered);
        page.into_reports()
    }

    /// A database error: logged once, here; the caller tries again.
    fn trouble(&self, error: &Error) {
        add(&self.counters.errors, 1);
        tracing::warn!(subscription = self.reader().name, %error, "the database refused; trying again");
    }

    fn lease_lost(&self, of: &str, count: usize) {
        if count > 0 {
            add(&self.counters.leases_lost, count as u64);
            tracing::warn!(
                subscription = self.reader().name,
                count,
                "the lease of {of} was lost; nothing was changed"
            );
        }
    }

    /// Counts what became of an event, and tells what somebody may have to act on.
    fn note(&self, event: &Event, settlement: &Settlement) {
        match settlement {
            Settlement::Delivered => add(&self.counters.delivered, 1),
            Settlement::Retry { delay, error } => {
                add(&self.counters.retried, 1);
                tracing::debug!(subscription = self.reader().name, event = %event.id, ?delay, error, "trying again");
            }
            Settlement::Dead { error } => {
                add(&self.counters.dead, 1);
                tracing::warn!(subscription = self.reader().name, event = %event.id, error, "an event is dead");
            }
            Settlement::Park => add(&self.counters.parked, 1),
            _ => {}
        }
    }
}

/// A subscription about to be worked on: say what receives the events, then start.
#[derive(Debug)]
pub struct WorkerBuilder {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) door: Arc<Doorkeeper>,
    pub(crate) watching: Arc<DropGuard>,
    pub(crate) due_bell: Arc<Bell>,
    pub(crate) roster: Arc<Roster>,
    pub(crate) subscription: Subscription,
    pub(crate) receiver: Receiver,
    pub(crate) name: WorkerName,
    pub(crate) grace: Duration,
}

impl WorkerBuilder {
    /// Names the worker, for people; otherwise it gets a unique name.
    pub fn name(mut self, name: WorkerName) -> Self {
        self.name = name;
        self
    }

    /// How long a stop waits for events that are being handled. Default 25 s.
    pub fn grace(mut self, grace: Duration) -> Self {
        self.grace = grace;
        self
    }

    /// Declares the subscription and works on it until stopped.
    pub async fn start(self) -> Result<Worker> {
        self.start_until(CancellationToken::new()).await
    }

    /// The same, stopping also when the caller's token is cancelled.
    pub async fn start_until(self, stop: CancellationToken) -> Result<Worker> {
        self.store.check().await?;
        let reader = declare(&*self.store, &self.subscription).await?;
        let stop = stop.child_token();
        let slots = Slots::new(reader.settings.concurrency);
        let context = Arc::new(Context {
            store: self.store,
            reader: watch::Sender::new(Arc::new(reader)),
            receiver: self.receiver,
            worker: self.name,
            grace: self.grace,
            door: self.door,
            slots,
            availability: Availability::default(),
            leases: Leases::default(),
            pace: Pace::default(),
            due_bell: self.due_bell,
            roster: self.roster,
            counters: Arc::default(),
        });
        let watching = self.watching;
        let task = tokio::spawn({
            let (context, stop) = (context.clone(), stop.clone());
            async move {
                let end = work(context, stop).await;
                drop(watching);
                end
            }
        });
        Ok(Worker { stop, task, context })
    }
}

/// Why a worker is no longer at work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum WorkerEnd {
    /// Somebody stopped it.
    Stopped,
    /// Its subscription was deleted. It is not declared again by itself: whoever deleted it may have meant it.
    Deleted,
    /// It broke down, which is a fault of Posthaste, or the runtime is being torn down.
    Broken,
}

/// A running worker. Dropping it does not stop it; call [`stop`](Self::stop).
#[derive(Debug)]
pub struct Worker {
    stop: CancellationToken,
    task: JoinHandle<WorkerEnd>,
    context: Arc<Context>,
}

impl Worker {
    /// What it did so far.
    pub fn counters(&self) -> &Arc<Counters> {
        &self.context.counters
    }

    /// Whether its receiver is away and nothing is being handed to it.
    #[cfg(feature = "testing")]
    pub(crate) fn waits_for_receiver(&self) -> bool {
        self.context.availability.is_away() && self.context.slots.all_free()
    }

    /// Stops: nothing new starts, what runs may finish within the grace time, all leases are given back.
    pub async fn stop(self) {
        self.stop.cancel();
        self.stopped().await;
    }

    /// Waits until the worker has ended, because its token was cancelled or by itself, and tells why.
    pub async fn stopped(self) -> WorkerEnd {
        self.task.await.unwrap_or(WorkerEnd::Broken)
    }
}

/// Declares a subscription, again if it conflicted with workers that are claiming from it.
async fn declare(store: &dyn Store, subscription: &Subscription) -> Result<Reader> {
    for _ in 0..5 {
        match store.declare(subscription).await {
            Err(error) if error.kind() == ErrorKind::Conflict => tracing::debug!(%error, "declaring again"),
            done => return done,
        }
    }
    store.declare(subscription).await
}

/// Works until stopped: one session after the other, a new one whenever the subscription's shape changes.
async fn work(context: Arc<Context>, stop: CancellationToken) -> WorkerEnd {
    let renewing = tokio::spawn(renew_leases(context.clone()));
    let mut end = WorkerEnd::Stopped;
    let mut gone = || {
        end = WorkerEnd::Deleted;
        stop.cancel();
    };
    while !stop.is_cancelled() {
        if context.reader().paused {
            sleep(LOOK_EVERY, &stop).await;
            if refresh(&context).await == Shape::Gone {
                gone();
            }
            continue;
        }
        let session = stop.child_token();
        let mut running = run_session(&context, &session);
        while !running.is_empty() {
            tokio::select! {
                _ = running.join_next() => {}
                () = tokio::time::sleep(LOOK_EVERY) => match refresh(&context).await {
                    Shape::Same => {}
                    Shape::Changed => session.cancel(),
                    Shape::Gone => gone(),
                },
            }
        }
    }
    renewing.abort();
    end
}

/// What became of a subscription since it was read last.
#[derive(PartialEq, Eq)]
enum Shape {
    /// At most its settings changed, and they are in force now.
    Same,
    /// It is claimed in another way, or paused: start a new session.
    Changed,
    /// Somebody deleted it.
    Gone,
}

async fn refresh(context: &Context) -> Shape {
    let old = context.reader();
    match context.roster.reader(&*context.store, &old.name).await {
        Ok(None) => Shape::Same,
        Ok(Some(new)) => {
            let shape = |reader: &Reader| (reader.order, reader.claim_by, reader.after_dead, reader.paused);
            let changed = shape(&old) != shape(&new);
            context.slots.resize(new.settings.concurrency);
            context.reader.send_replace(Arc::new(new));
            if changed { Shape::Changed } else { Shape::Same }
        }
        Err(error) if error.kind() == ErrorKind::NotFound => {
            tracing::error!(subscription = old.name, "the subscription was deleted; its worker stops");
            Shape::Gone
        }
        Err(error) => {
            context.trouble(&error);
            Shape::Same
        }
    }
}

fn run_session(context: &Arc<Context>, stop: &CancellationToken) -> JoinSet<()> {
    let mut tasks = JoinSet::new();
    let due = Runner::new(context.clone(), Reads::Due).run(stop.clone());
    tasks.spawn(async move {
        due.await;
    });
    let (shared, context, stop) = (context.reader().order == Order::None, context.clone(), stop.clone());
    tasks.spawn(async move {
        match shared {
            true => run_shared(&context, &stop).await,
            false => run_lanes(&context, &stop).await,
        }
    });
    tasks
}

/// Order `none`: claim side by side with everybody else.
async fn run_shared(context: &Arc<Context>, stop: &CancellationToken) {
    while !stop.is_cancelled() {
        match context.store.open_lane(&context.reader()).await {
            Ok(lane) => {
                Runner::new(context.clone(), Reads::Shared(lane)).run(stop.clone()).await;
            }
            Err(error) => {
                context.trouble(&error);
                sleep(LOOK_EVERY, stop).await;
            }
        }
    }
}

/// `key` and `strict` order: own as many lanes as is fair among the workers that are alive.
async fn run_lanes(context: &Arc<Context>, stop: &CancellationToken) {
    let mut lanes: JoinSet<Ended> = JoinSet::new();
    let mut handles: Vec<CancellationToken> = Vec::new();
    let mut announced: Option<(Instant, u32)> = None;
    while !stop.is_cancelled() {
        while let Some(ended) = lanes.try_join_next() {
            tracing::debug!(?ended, "a lane ended");
        }
        handles.retain(|handle| !handle.is_cancelled());
        match fair_share(context, &mut announced).await {
            Ok(share) => {
                balance(context, stop, share, &mut lanes, &mut handles).await;
            }
            Err(error) => context.trouble(&error),
        }
        tokio::select! {
            _ = lanes.join_next(), if !lanes.is_empty() => {}
            () = tokio::time::sleep(LOOK_EVERY) => {}
            () = stop.cancelled() => {}
        }
    }
    lanes.join_all().await;
    if announced.is_some()
        && let Err(error) = context.store.dismiss_worker(&context.reader(), &context.holder()).await
    {
        context.trouble(&error);
    }
}

/// How many lanes this worker should own: all of them divided by who is alive, rounded up.
async fn fair_share(context: &Arc<Context>, announced: &mut Option<(Instant, u32)>) -> Result<usize> {
    let (reader, holder) = (context.reader(), context.holder());
    if reader.lanes == 1 {
        return Ok(1);
    }
    let alive = match *announced {
        Some((when, alive)) if when.elapsed() < holder.lease / 3 => alive,
        _ => {
            let alive = context.store.announce_worker(&reader, &holder).await?.max(1);
            *announced = Some((Instant::now(), alive));
            alive
        }
    };
    Ok(usize::from(reader.lanes).div_ceil(alive as usize))
}

async fn balance(
    context: &Arc<Context>,
    stop: &CancellationToken,
    share: usize,
    lanes: &mut JoinSet<Ended>,
    handles: &mut Vec<CancellationToken>,
) {
    while handles.len() > share {
        if let Some(surplus) = handles.pop() {
            surplus.cancel();
        }
    }
    while handles.len() < share && !stop.is_cancelled() {
        let since = Instant::now();
        reached(Point::TakingLane);
        match context.store.claim_lane(&context.reader(), &context.holder()).await {
            Ok(Some(claim)) => handles.push(start_lane(context, stop, claim, since, lanes)),
            Ok(None) => return,
            Err(error) => return context.trouble(&error),
        }
    }
}

/// Starts the runner of a lane. Its token is cancelled when it ends, which frees its place.
fn start_lane(
    context: &Arc<Context>,
    stop: &CancellationToken,
    claim: LaneClaim,
    since: Instant,
    lanes: &mut JoinSet<Ended>,
) -> CancellationToken {
    reached(Point::LaneTaken);
    let LaneClaim { lane, token, unfinished } = claim;
    let events: usize = unfinished.iter().map(|batch| batch.events.len()).sum();
    match unfinished.is_empty() {
        true => tracing::debug!(subscription = context.reader().name, ?lane, "took a lane"),
        false => tracing::info!(
            subscription = context.reader().name,
            ?lane,
            events,
            "took a lane over, with what another worker had not finished"
        ),
    }
    let handle = stop.child_token();
    context.leases.hold(token, 1, since, context.holder().lease);
    let (context, done) = (context.clone(), handle.clone());
    lanes.spawn(async move {
        let _done = done.clone().drop_guard();
        let ended = match context.reader().order {
            Order::Strict => {
                let runner = StrictRunner { context: context.clone(), lane, token };
                runner.run(unfinished, done).await
            }
            _ => {
                let mut runner = Runner::new(context.clone(), Reads::Owned(lane, token));
                runner.take_over(unfinished);
                runner.run(done).await
            }
        };
        context.leases.let_go(token);
        ended
    });
    handle
}

/// What was settled while it was to be renewed is let go within this time, as a rule. It must be less than the rest of a lease.
const SETTLED_WITHIN: Duration = Duration::from_millis(100);

/// How soon a changed lease is noticed.
const LEASE_CHANGE: Duration = Duration::from_secs(1);

/// Renews all leases every third of their length, for as long as the worker lives. When the length is changed, what is
/// held was taken with the old one and what comes is taken with the new one: the shorter of the two decides.
async fn renew_leases(context: Arc<Context>) {
    let (mut before, mut at) = (context.holder().lease, Instant::now());
    loop {
        let lease = context.holder().lease;
        let shorter = lease.min(before);
        tokio::time::sleep((shorter / 3).min(LEASE_CHANGE)).await;
        if at.elapsed() < shorter / 3 {
            continue;
        }
        (before, at) = (lease, Instant::now());
        let tokens = context.leases.tokens();
        if tokens.is_empty() {
            continue;
        }
        let since = Instant::now();
        let reader = context.reader();
        reached(Point::Renewing);
        match tokio::time::timeout(lease / 3, context.store.renew(&reader, &tokens, lease)).await {
            Ok(Ok(still)) => {
                reached(Point::Renewed);
                context.leases.renewed(&still, since, lease);
                let missing: Vec<Token> = tokens.into_iter().filter(|token| !still.contains(token)).collect();
                if !missing.is_empty() {
                    tokio::time::sleep(SETTLED_WITHIN).await;
                    context.lease_lost("a claim", context.leases.lost(&missing));
                }
            }
            Ok(Err(error)) => context.trouble(&error),
            Err(_) => tracing::warn!(subscription = reader.name, "renewing leases took too long"),
        }
    }
}

async fn sleep(duration: Duration, stop: &CancellationToken) {
    tokio::select! {
        () = tokio::time::sleep(duration) => {}
        () = stop.cancelled() => {}
    }
}
