//! Running a subscription until there is nothing left to do now.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::error::{Error, Result};
use crate::store::testing::{Move, NotDelivered, Why};
use crate::worker::{Worker, WorkerBuilder};

use super::Testing;
use super::still::{FAR, Still};

/// What a run did, and how it left the subscription.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Run {
    /// Which subscription.
    pub subscription: String,
    /// Why it ended.
    pub end: End,
    /// Events delivered by this run.
    pub delivered: u64,
    /// Attempts of this run that failed and will be repeated.
    pub retried: u64,
    /// Events that became dead in this run.
    pub dead: u64,
    /// What the subscription wants and has not delivered, in the order of the log.
    pub left: Vec<NotDelivered>,
}

/// Why a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// Nothing was due and nothing in flight.
    Idle,
    /// The receiver said that it is away: what is due waits for it.
    ReceiverAway,
    /// Somebody paused the subscription.
    Paused,
    /// It did not come to an end in time.
    OutOfTime,
}

/// Looks happen whenever the worker has settled or found nothing; this is for what happens without it, in other workers.
const LOOK_ANYWAY: Duration = Duration::from_millis(50);

/// At the end of a run nothing is in flight, unless its time was up: then there is no point in patience.
const GRACE: Duration = Duration::from_millis(500);

impl Testing {
    /// Starts the worker and stops it as soon as nothing is due and nothing in flight, or its receiver says that it is
    /// away. Retries wait for their time in between: an event that fails is tried once in a run. If the future is dropped, the
    /// worker stops, and the next run puts right what this one left.
    pub async fn run_until_idle(&self, builder: WorkerBuilder, bound: Duration) -> Result<Run> {
        let name = builder.subscription.name.as_str().to_owned();
        let (moved, over) = (Arc::new(Notify::new()), CancellationToken::new());
        let _stops_when_dropped = over.clone().drop_guard();
        self.put_times_back(&name).await?;
        let store = Still { inner: builder.store.clone(), moved: moved.clone(), over: over.clone() };
        let builder = WorkerBuilder { store: Arc::new(store), ..builder }.grace(GRACE);
        let worker = builder.start_until(over.clone()).await?;
        let end = self.watch(&name, &worker, &moved, bound).await;
        over.cancel();
        let counters = worker.counters().clone();
        worker.stop().await;
        self.put_times_back(&name).await?;
        Ok(Run {
            end: end?,
            delivered: counters.delivered(),
            retried: counters.retried(),
            dead: counters.dead(),
            left: self.not_delivered(&name).await?,
            subscription: name,
        })
    }

    async fn watch(&self, name: &str, worker: &Worker, moved: &Notify, bound: Duration) -> Result<End> {
        let begun = Instant::now();
        loop {
            // Asked before the look: an answer of before the events that the look sees would be worth nothing.
            let away = worker.waits_for_receiver();
            if self.is_idle(name).await? {
                return Ok(End::Idle);
            }
            if away && worker.waits_for_receiver() {
                return Ok(End::ReceiverAway);
            }
            if self.posthaste.store.reader(name).await?.paused {
                return Ok(End::Paused);
            }
            if begun.elapsed() > bound {
                return Ok(End::OutOfTime);
            }
            // Whether it heard something or not, it looks.
            drop(tokio::time::timeout(LOOK_ANYWAY, moved.notified()).await);
        }
    }

    async fn is_idle(&self, name: &str) -> Result<bool> {
        let left = self.not_delivered(name).await?;
        Ok(!left.iter().any(|event| matches!(event.why, Why::Due | Why::InFlight)))
    }

    async fn put_times_back(&self, name: &str) -> Result<()> {
        let subscription = match self.posthaste.store.reader(name).await {
            Ok(reader) => reader.id,
            // Before its first run.
            Err(Error::NoSuchSubscription(_)) => return Ok(()),
            Err(error) => return Err(error),
        };
        self.store().advance(FAR, Move::Retries { subscription, later_than: FAR / 2 }).await
    }
}
