//! From the return of a commit to the handler.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use serde::Serialize;

use crate::{Handler, Message, Result};

/// How many messages are sent before the clock counts.
const WARMUP: u64 = 40;

/// How long stragglers are waited for once the producer is done.
const PATIENCE: Duration = Duration::from_secs(30);

/// What a run came to, in milliseconds.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Latency {
    /// Half of the messages were quicker.
    pub p50: f64,
    /// All but one in a hundred were quicker.
    pub p99: f64,
    /// How many were handled.
    pub count: usize,
}

/// Commits one message at a time at a fixed pace, and notes when each commit returned and when each handler began.
///
/// The pace is that of a clock: after a slow commit the next ones catch up. Before it counts, a few messages open the
/// connections on both sides; their numbers follow those that count.
#[derive(Debug, Clone)]
pub struct Stopwatch {
    rate: u64,
    total: u64,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    committed: Vec<OnceLock<Instant>>,
    handled: Vec<OnceLock<Instant>>,
    count: AtomicU64,
}

impl Stopwatch {
    /// For so many messages per second, that long.
    pub fn new(rate: u64, seconds: u64) -> Self {
        let total = rate * seconds;
        let empty = || (0..total + WARMUP).map(|_| OnceLock::new()).collect();
        let shared = Shared { committed: empty(), handled: empty(), count: AtomicU64::new(0) };
        Self { rate, total, shared: Arc::new(shared) }
    }

    /// What the peer shall call.
    pub fn handler(&self) -> Handler {
        let shared = self.shared.clone();
        Handler::new(move |message| {
            let now = Instant::now();
            let place = shared.handled.get(message.order as usize);
            if place.is_some_and(|place| place.set(now).is_ok()) {
                shared.count.fetch_add(1, Ordering::Relaxed);
            }
        })
    }

    /// Sends all, waits until all are handled.
    pub async fn run<S, F>(&self, send: S) -> Result<Latency>
    where
        S: Fn(Message) -> F,
        F: Future<Output = Result<()>>,
    {
        self.pace(self.total..self.total + WARMUP, &send, WARMUP).await?;
        self.pace(0..self.total, &send, WARMUP + self.total).await?;
        Ok(self.latency())
    }

    async fn pace<S, F>(&self, orders: std::ops::Range<u64>, send: &S, handled: u64) -> Result<()>
    where
        S: Fn(Message) -> F,
        F: Future<Output = Result<()>>,
    {
        let start = tokio::time::Instant::now();
        for (place, order) in orders.enumerate() {
            tokio::time::sleep_until(start + Duration::from_secs_f64(place as f64 / self.rate as f64)).await;
            send(Message::new(order)).await?;
            self.shared.committed[order as usize].get_or_init(Instant::now);
        }
        self.until(handled).await
    }

    async fn until(&self, count: u64) -> Result<()> {
        let end = Instant::now() + PATIENCE;
        while self.shared.count.load(Ordering::Relaxed) < count {
            if Instant::now() > end {
                let handled = self.shared.count.load(Ordering::Relaxed);
                return Err(format!("only {handled} of {count} messages were handled").into());
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        Ok(())
    }

    /// A handler that was quicker than the answer to the commit counts as zero.
    fn latency(&self) -> Latency {
        let Shared { committed, handled, .. } = &*self.shared;
        let pairs = committed.iter().zip(handled).take(self.total as usize);
        let taken = pairs.filter_map(|(committed, handled)| {
            let taken = handled.get()?.saturating_duration_since(*committed.get()?);
            Some(taken.as_secs_f64() * 1000.0)
        });
        let mut taken: Vec<f64> = taken.collect();
        taken.sort_by(f64::total_cmp);
        let below = |share: f64| taken[((taken.len() as f64 * share).ceil() as usize).max(1) - 1];
        Latency { p50: below(0.5), p99: below(0.99), count: taken.len() }
    }
}
