//! Where events go: handlers inside the application, and sinks that take whole pages. Open: users write their own.

use std::fmt::Display;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use async_trait::async_trait;
use futures::FutureExt;

use crate::event::Event;
use crate::outcome::Outcome;

/// Handles one event at a time. Async closures are handlers: `|event: Arc<Event>| async move { ... }`.
#[async_trait]
pub trait Handler: Send + Sync + 'static {
    /// Handles the event. A panic counts as a failure of this event.
    async fn handle(&self, event: Arc<Event>) -> Outcome;
}

#[async_trait]
impl<F, Fut, R> Handler for F
where
    F: Fn(Arc<Event>) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = R> + Send,
    R: IntoOutcome,
{
    async fn handle(&self, event: Arc<Event>) -> Outcome {
        self(event).await.into_outcome()
    }
}

/// What a handler may return: nothing, an [`Outcome`], or a `Result` whose error means "try again".
pub trait IntoOutcome {
    /// The outcome it stands for.
    fn into_outcome(self) -> Outcome;
}

impl IntoOutcome for Outcome {
    fn into_outcome(self) -> Outcome {
        self
    }
}

impl IntoOutcome for () {
    fn into_outcome(self) -> Outcome {
        Outcome::Delivered
    }
}

impl<T: IntoOutcome, E: Display> IntoOutcome for Result<T, E> {
    fn into_outcome(self) -> Outcome {
        match self {
            Ok(value) => value.into_outcome(),
            // The alternate form of common error types prints the whole chain of causes.
            Err(error) => Outcome::retry(format!("{error:#}")),
        }
    }
}

/// Takes a page of events at a time: a broker client, or a handler that works better in bulk.
///
/// Events come in order. In `key` order a sink must not deliver a later event of a key once an earlier one of this page
/// was not delivered: leave it unmarked. What is left unmarked is retried, so forgetting a case never loses an event.
#[async_trait]
pub trait Sink: Send + Sync + 'static {
    /// Delivers the page and marks each event.
    async fn deliver(&self, page: &mut Page);

    /// Whether the receiver can be reached. Asked after a timeout, to tell a bad event from a bad connection.
    async fn check(&self) -> Result<(), String> {
        Ok(())
    }
}

#[async_trait]
impl<S: Sink + ?Sized> Sink for Arc<S> {
    async fn deliver(&self, page: &mut Page) {
        (**self).deliver(page).await;
    }

    async fn check(&self) -> Result<(), String> {
        (**self).check().await
    }
}

/// A page of events on its way to a sink, with a mark per event.
#[derive(Debug)]
pub struct Page {
    events: Vec<Arc<Event>>,
    marks: Vec<Option<Outcome>>,
}

impl Page {
    /// A page of first attempts.
    pub fn new(events: Vec<Arc<Event>>) -> Self {
        let marks = vec![None; events.len()];
        Self { events, marks }
    }

    /// Which attempt this is.
    pub fn attempt(&self, _index: usize) -> u32 {
        1
    }

    /// How many steps earlier attempts finished.
    pub fn step(&self, _index: usize) -> u32 {
        0
    }

    /// Records that this many steps are finished.
    pub fn reached(&mut self, _index: usize, _step: u32) {}

    /// The mark so far.
    pub fn outcome(&self, index: usize) -> Option<&Outcome> {
        self.marks.get(index)?.as_ref()
    }

    /// Some of the events, unmarked.
    pub fn select(&self, indexes: &[usize]) -> Page {
        Page::new(indexes.iter().map(|index| self.events[*index].clone()).collect())
    }

    /// The events, in order.
    pub fn events(&self) -> &[Arc<Event>] {
        &self.events
    }

    /// Marks one event, by its place in [`events`](Self::events).
    pub fn mark(&mut self, index: usize, outcome: Outcome) {
        if let Some(mark) = self.marks.get_mut(index) {
            *mark = Some(outcome);
        }
    }

    /// Marks one event delivered.
    pub fn delivered(&mut self, index: usize) {
        self.mark(index, Outcome::Delivered);
    }

    /// Marks all that are unmarked so far.
    pub fn mark_rest(&mut self, outcome: &Outcome) {
        for mark in self.marks.iter_mut().filter(|mark| mark.is_none()) {
            *mark = Some(outcome.clone());
        }
    }

    pub(crate) fn into_outcomes(self) -> Vec<Outcome> {
        let unmarked = || Outcome::retry("the sink did not say what became of this event");
        self.marks.into_iter().map(|mark| mark.unwrap_or_else(unmarked)).collect()
    }
}

/// What a subscription delivers to.
#[derive(Clone)]
pub(crate) enum Receiver {
    Handler(Arc<dyn Handler>),
    Sink(Arc<dyn Sink>),
    /// Settles within the handler's own transaction.
    Transactional(Arc<dyn Transactional>),
}

impl std::fmt::Debug for Receiver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Handler(_) => "Handler",
            Self::Sink(_) => "Sink",
            Self::Transactional(_) => "Transactional",
        })
    }
}

impl Receiver {
    /// Whether it takes whole pages.
    pub(crate) fn takes_pages(&self) -> bool {
        matches!(self, Self::Sink(_))
    }

    /// Hands events over; one outcome each. A panic is a failure of what was being handled, not of the worker.
    pub(crate) async fn receive(
        &self,
        events: &[Arc<Event>],
        delivery: Option<&DeliveryKey>,
    ) -> Vec<Outcome> {
        let handing = AssertUnwindSafe(self.hand_over(events, delivery));
        match handing.catch_unwind().await {
            Ok(outcomes) => outcomes,
            Err(panic) => vec![Outcome::retry(format!("panicked: {}", panic_text(&*panic))); events.len()],
        }
    }

    async fn hand_over(&self, events: &[Arc<Event>], delivery: Option<&DeliveryKey>) -> Vec<Outcome> {
        match (self, events, delivery) {
            (Self::Handler(handler), [event], _) => vec![handler.handle(event.clone()).await],
            (Self::Transactional(handler), [event], Some(delivery)) => {
                vec![handler.handle(event.clone(), delivery).await]
            }
            (Self::Sink(sink), ..) => {
                let mut page = Page::new(events.to_vec());
                sink.deliver(&mut page).await;
                page.into_outcomes()
            }
            _ => vec![Outcome::retry("this handler takes one claimed event at a time"); events.len()],
        }
    }

    pub(crate) async fn check(&self) -> Result<(), String> {
        match self {
            Self::Sink(sink) => match AssertUnwindSafe(sink.check()).catch_unwind().await {
                Ok(answer) => answer,
                Err(panic) => Err(format!("the check panicked: {}", panic_text(&*panic))),
            },
            _ => Ok(()),
        }
    }
}

/// Names the delivery row that a transactional handler settles.
#[derive(Debug, Clone)]
pub(crate) struct DeliveryKey {
    pub(crate) subscription: i64,
    pub(crate) keyed: bool,
    pub(crate) dead_blocks: bool,
    pub(crate) seq: i64,
    pub(crate) token: crate::id::Token,
}

/// A handler whose writes commit together with the settlement of its delivery.
#[async_trait]
pub(crate) trait Transactional: Send + Sync {
    /// `Delivered` means: committed and settled.
    async fn handle(&self, event: Arc<Event>, delivery: &DeliveryKey) -> Outcome;
}

fn panic_text(panic: &(dyn std::any::Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("without a message")
}
