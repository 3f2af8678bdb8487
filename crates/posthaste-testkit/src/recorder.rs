//! A sink that remembers everything that was handed to it.

use std::fmt;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures::FutureExt;
use posthaste::{Event, Handler, Outcome, Page, Sink};
use tokio::sync::watch;

use crate::sinks::{Accepting, Counts, OneByOne, hand_over};

/// A sink and a handler that remembers every attempt, and leaves the outcome to what it stands around. Cheap to clone;
/// all clones share one memory.
#[derive(Clone)]
pub struct Recorder {
    next: Arc<dyn Sink>,
    recorded: Arc<watch::Sender<Vec<Recorded>>>,
    handled: Arc<Counts>,
    bound: Duration,
}

/// One attempt at one event.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Recorded {
    /// The event.
    pub event: Arc<Event>,
    /// The how-manieth attempt: as the store counts for a sink, as the recorder has seen it for a handler.
    pub attempt: u32,
    /// What became of it; `None` if it was left unmarked, which means a retry, or if the attempt was cut off, by the delivery
    /// timeout or because the worker stopped. A panic is a retry that says so.
    pub outcome: Option<Outcome>,
}

/// A test that has waited this long will not come to an end.
const BOUND: Duration = Duration::from_secs(60);

impl Recorder {
    /// Accepts everything.
    pub fn accepting() -> Self {
        Self::around(Accepting)
    }

    /// Around a sink.
    pub fn around(sink: impl Sink) -> Self {
        Self {
            next: Arc::new(sink),
            recorded: Arc::new(watch::Sender::new(Vec::new())),
            handled: Arc::default(),
            bound: BOUND,
        }
    }

    /// Around a handler.
    pub fn around_handler(handler: impl Handler) -> Self {
        Self::around(OneByOne(handler))
    }

    /// How long [`wait_for`](Self::wait_for) waits. Default 60 s.
    #[must_use]
    pub fn bound(mut self, bound: Duration) -> Self {
        self.bound = bound;
        self
    }

    /// Every attempt so far, in the order in which they ended.
    pub fn attempts(&self) -> Vec<Recorded> {
        self.recorded.borrow().clone()
    }

    /// The events that were delivered, in that order. One that was delivered twice is there twice.
    pub fn delivered(&self) -> Vec<Arc<Event>> {
        let recorded = self.recorded.borrow();
        let delivered = recorded.iter().filter(|recorded| recorded.outcome == Some(Outcome::Delivered));
        delivered.map(|recorded| recorded.event.clone()).collect()
    }

    /// Waits until there were this many attempts since the beginning or the last [`clear`](Self::clear), and returns them.
    ///
    /// # Panics
    /// If there are not within the bound.
    pub async fn wait_for(&self, count: usize) -> Vec<Recorded> {
        let mut watching = self.recorded.subscribe();
        let enough = watching.wait_for(|recorded| recorded.len() >= count);
        match tokio::time::timeout(self.bound, enough).await {
            Ok(Ok(recorded)) => recorded.clone(),
            _ => {
                let (made, bound) = (self.recorded.borrow().len(), self.bound);
                panic!("only {made} of {count} attempts were made within {bound:?}")
            }
        }
    }

    /// Forgets everything.
    pub fn clear(&self) {
        self.recorded.send_modify(Vec::clear);
    }

    fn record(&self, page: &Page, panicked: Option<&Outcome>) {
        let of = |(index, event): (usize, &Arc<Event>)| Recorded {
            event: event.clone(),
            attempt: page.attempt(index),
            outcome: page.outcome(index).or(panicked).cloned(),
        };
        self.recorded.send_modify(|recorded| recorded.extend(page.events().iter().enumerate().map(of)));
    }
}

/// Recorded when it ends, in whatever way: an attempt that is cut off ends by being dropped.
struct Attempt<'a> {
    recorder: &'a Recorder,
    page: &'a mut Page,
    panicked: Option<Outcome>,
}

impl Drop for Attempt<'_> {
    fn drop(&mut self) {
        self.recorder.record(self.page, self.panicked.as_ref());
    }
}

#[async_trait]
impl Sink for Recorder {
    async fn deliver(&self, page: &mut Page) {
        let mut attempt = Attempt { recorder: self, page, panicked: None };
        let delivering = AssertUnwindSafe(self.next.deliver(attempt.page)).catch_unwind().await;
        if let Err(panic) = delivering {
            attempt.panicked = Some(Outcome::retry("panicked"));
            drop(attempt);
            std::panic::resume_unwind(panic);
        }
    }

    async fn check(&self) -> Result<(), String> {
        self.next.check().await
    }
}

#[async_trait]
impl Handler for Recorder {
    async fn handle(&self, event: Arc<Event>) -> Outcome {
        let attempt = self.handled.next(event.id);
        hand_over(self, event, attempt).await
    }
}

impl fmt::Debug for Recorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recorder").field("recorded", &*self.recorded.borrow()).finish_non_exhaustive()
    }
}
