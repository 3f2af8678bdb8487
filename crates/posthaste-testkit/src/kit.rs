//! The kit: everything a test asks of one log.

use std::time::Duration;

use posthaste::testing::{EventMark, NotDelivered, Testing, Why};
use posthaste::{Posthaste, Producer, WorkerBuilder};

use crate::expected::EnqueuedEvents;
use crate::report::Report;

/// Everything a test asks of one log. Cheap to clone. Its methods panic where a test cannot go on.
#[derive(Debug, Clone)]
pub struct Kit {
    testing: Testing,
    bound: Duration,
}

/// A test that has waited this long will not come to an end.
const BOUND: Duration = Duration::from_secs(60);

/// A subscription that goes on failing after this many moves of the clock would do so for ever.
const MOST_MOVES: usize = 10_000;

impl Kit {
    /// The kit for this log.
    pub fn of(posthaste: &Posthaste) -> Self {
        Self { testing: posthaste.testing(), bound: BOUND }
    }

    /// How long a run may take. Default 60 s.
    #[must_use]
    pub fn bound(mut self, bound: Duration) -> Self {
        self.bound = bound;
        self
    }

    // --- what was enqueued

    /// Remembers what this connection sees of the log now: committed events, and those of its own open transaction.
    ///
    /// # Panics
    /// If the log cannot be read.
    pub async fn mark(&self, connection: &mut impl Producer) -> EventMark {
        must("mark the log", self.testing.mark(connection).await)
    }

    /// What was enqueued since a mark. Asked in the transaction in which the mark was taken, open as it is: what this
    /// transaction enqueued, and nothing else. Asked elsewhere, after a commit say: what has become visible since.
    ///
    /// # Panics
    /// If the log cannot be read.
    pub async fn enqueued_since(&self, connection: &mut impl Producer, mark: &EventMark) -> EnqueuedEvents {
        EnqueuedEvents(must("read the log", self.testing.enqueued_since(connection, mark).await))
    }

    // --- time

    /// Moves the clock: everything that waits for a time is due this much earlier, in all subscriptions of the log.
    ///
    /// Moved are the times of delayed events (`available_at`), of retries, and of what holds a `strict` subscription, and
    /// the ends of dedupe keys. Not moved are leases, the ages of events (retention goes by those), the wait for a
    /// receiver that is away, and the clock that your own SQL reads. Workers of this process are woken, except one of
    /// a `strict` subscription that waits out a backoff: that one has its own clock.
    ///
    /// # Panics
    /// If the database refuses.
    pub async fn advance(&self, by: Duration) {
        must("move the clock", self.testing.advance(by).await);
    }

    /// Moves the clock just so far that the next event of a subscription that waits for its time is due; says how far.
    /// `None`: nothing waits for a time.
    ///
    /// # Panics
    /// If the database refuses.
    pub async fn advance_to_next(&self, subscription: &str) -> Option<Duration> {
        let times = |event: &NotDelivered| match event.why {
            Why::Waiting { due_in, .. } => Some(due_in),
            _ => None,
        };
        let next = self.not_delivered(subscription).await.iter().filter_map(times).min()?;
        self.advance(next).await;
        Some(next)
    }

    // --- running

    /// What a subscription wants and has not delivered, in the order of the log, seen at one moment.
    ///
    /// # Panics
    /// If the database refuses.
    pub async fn not_delivered(&self, subscription: &str) -> Vec<NotDelivered> {
        must("see what is left", self.testing.not_delivered(subscription).await)
    }

    /// Starts the worker and stops it as soon as everything that is visible is settled: delivered, dead, waiting for a
    /// later time, or waiting behind such an event. It also ends when the receiver says that it is away.
    ///
    /// An event that fails is tried once in a run, however short its backoff: time stands still for retries. What handlers
    /// enqueue meanwhile belongs to the run.
    ///
    /// # Panics
    /// If the worker cannot start, the subscription is paused, or the run does not end within the bound.
    pub async fn run_until_idle(&self, worker: WorkerBuilder) -> Report {
        Report::of(must("run", self.testing.run_until_idle(worker, self.bound).await), self.bound)
    }

    /// Runs until nothing waits for a time any more, moving the clock from one due time to the next: all delays and all
    /// backoffs pass, in order. What is left afterwards is dead, or waits for a receiver that is away or behind a dead
    /// letter. The report is about all the runs together.
    ///
    /// # Panics
    /// As [`run_until_idle`](Self::run_until_idle), or if it would go on for ever.
    pub async fn run_until_settled(&self, worker: impl Fn() -> WorkerBuilder) -> Report {
        let mut report = self.run_until_idle(worker()).await;
        for _ in 0..MOST_MOVES {
            if report.receiver_away || self.advance_to_next(&report.subscription).await.is_none() {
                return report;
            }
            report = report.and(self.run_until_idle(worker()).await);
        }
        panic!("after {MOST_MOVES} moves of the clock there is still something to wait for:\n{report}");
    }
}

fn must<T>(doing: &str, result: posthaste::Result<T>) -> T {
    result.unwrap_or_else(|error| panic!("the test kit could not {doing}: {error}"))
}
