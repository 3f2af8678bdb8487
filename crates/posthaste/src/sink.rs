//! Where events go: handlers inside the application, and sinks that take whole pages. Open: users write their own.

use std::fmt::Display;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use async_trait::async_trait;
use futures::FutureExt;

use crate::event::Event;
use crate::outcome::Outcome;
use crate::page::Page;

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

    /// Whether a lane may hand over its next page while the last one is under way, so that the receiver does not wait for the
    /// database and the database not for the receiver. In `key` order no key is in both (but for delayed events, which have
    /// no order), so each key keeps its order; events of different keys may arrive in another order than they were
    /// enqueued. In `strict` order it is never done, and without an order always. Pages of other lanes, and events that are
    /// tried again, come whatever this says.
    fn overlaps(&self) -> bool {
        false
    }
}

#[async_trait]
impl<S: Sink + ?Sized> Sink for Arc<S> {
    async fn deliver(&self, page: &mut Page) {
        (**self).deliver(page).await;
    }

    fn overlaps(&self) -> bool {
        (**self).overlaps()
    }

    async fn check(&self) -> Result<(), String> {
        (**self).check().await
    }
}

/// What a subscription delivers to.
#[derive(Clone)]
pub(crate) enum Receiver {
    Handler(Arc<dyn Handler>),
    Sink(Arc<dyn Sink>),
    /// Settles within the handler's own transaction.
    #[cfg_attr(
        not(feature = "postgres"),
        expect(dead_code, reason = "only PostgreSQL has transactional handlers")
    )]
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

    /// Whether it takes a page while another one is under way.
    pub(crate) fn overlaps(&self) -> bool {
        matches!(self, Self::Sink(sink) if sink.overlaps())
    }

    /// Hands a page over and marks it. A panic is a failure of what was being handled, not of the worker.
    pub(crate) async fn receive(&self, page: &mut Page, delivery: Option<&DeliveryKey>) {
        let handing = AssertUnwindSafe(self.hand_over(page, delivery));
        if let Err(panic) = handing.catch_unwind().await {
            page.mark_rest(&Outcome::retry(format!("panicked: {}", panic_text(&*panic))));
        }
    }

    async fn hand_over(&self, page: &mut Page, delivery: Option<&DeliveryKey>) {
        match (self, page.events(), delivery) {
            (Self::Sink(sink), ..) => sink.deliver(page).await,
            (Self::Handler(handler), [event], _) => {
                let outcome = handler.handle(event.clone()).await;
                page.mark(0, outcome);
            }
            (Self::Transactional(handler), [event], Some(delivery)) => {
                let outcome = handler.handle(event.clone(), delivery).await;
                page.mark(0, outcome);
            }
            _ => page.mark_rest(&Outcome::retry("this handler takes one claimed event at a time")),
        }
    }

    pub(crate) async fn check(&self) -> Result<(), String> {
        match self {
            Self::Sink(sink) => match AssertUnwindSafe(sink.check()).catch_unwind().await {
                Ok(answer) => answer,
                Err(panic) => Err(format!("the check panicked: {}", panic_text(&*panic))),
            },
            Self::Transactional(handler) => handler.check().await,
            Self::Handler(_) => Ok(()),
        }
    }
}

/// Names the delivery row that a transactional handler settles.
#[derive(Debug, Clone)]
#[cfg_attr(
    not(feature = "postgres"),
    expect(dead_code, reason = "only PostgreSQL has transactional handlers")
)]
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
    /// Whether the database is there.
    async fn check(&self) -> Result<(), String>;
}

fn panic_text(panic: &(dyn std::any::Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("without a message")
}
