//! What every sink here is, beyond delivering pages.

use std::time::Duration;

use async_trait::async_trait;
use posthaste::{Outcome, Page, Settings, Sink};
use tokio::time::Instant;

use crate::envelope::Envelope;

/// What a sink knows of the subscription it serves.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Route {
    /// The subscription's name.
    pub subscription: String,
    /// Whether events of one key must arrive in order.
    pub in_key_order: bool,
    /// How events become messages.
    pub envelope: Envelope,
    /// How long after the first time an event may be sent once more: its lease and its longest delay.
    pub repeats_within: Duration,
    /// How long the engine waits for a page before it gives it up: the subscription's `timeout`.
    pub page_time: Duration,
}

impl Route {
    /// A subscription in key order, with CloudEvents in binary form.
    pub fn new(subscription: impl Into<String>) -> Self {
        let usual = Settings::default();
        Self {
            subscription: subscription.into(),
            in_key_order: true,
            envelope: Envelope::default(),
            repeats_within: usual.lease + usual.max_delay,
            page_time: usual.timeout,
        }
    }

    /// With the lease, the delays and the timeout of these settings.
    pub fn settings(mut self, settings: &Settings) -> Self {
        self.repeats_within = settings.lease + settings.max_delay;
        self.page_time = settings.timeout;
        self
    }

    /// A sink's deadline for one thing it waits for, shortened if need be so that connecting, sending and a check fit into
    /// the time of a page.
    pub fn patience(&self, wished: Duration) -> Duration {
        wished.min(share_with_connecting(self.page_time))
    }

    /// The same for a sink that connects, sends and is checked within one such deadline each time.
    pub fn long_patience(&self, wished: Duration) -> Duration {
        wished.min(share_without_connecting(self.page_time))
    }

    /// Until when something that takes at most `longest` may be started, so that it, and a health check that takes no
    /// longer, are over before the engine gives the page up. What was not started in time is not sent: the engine would
    /// count an attempt at it. The time of a page is the route's, or what the page itself has left if that is less: an
    /// operator can change the subscription's `timeout` at any time.
    ///
    /// Never at once, or a sink with long deadlines would send nothing at all.
    pub fn last_start(&self, page: &Page, longest: Duration) -> Instant {
        let time = page.time_left().map_or(self.page_time, |left| left.min(self.page_time));
        let reserve = longest * 2 + time / 20;
        Instant::now() + time.saturating_sub(reserve).max(time / 10)
    }

    /// Without any order among events.
    pub fn without_order(mut self) -> Self {
        self.in_key_order = false;
        self
    }

    /// With another envelope.
    pub fn envelope(mut self, envelope: Envelope) -> Self {
        self.envelope = envelope;
        self
    }
}

/// What each of connecting, sending and a check may take of the time of a page.
pub(crate) fn share_with_connecting(page_time: Duration) -> Duration {
    page_time / 5
}

/// The same if connecting is part of the other two. A tenth is left to start in, a twentieth for everything else.
pub(crate) fn share_without_connecting(page_time: Duration) -> Duration {
    page_time * 17 / 40
}

/// A sink with a server behind it. `Sink::check` is its health check.
#[async_trait]
pub trait Endpoint: Sink {
    /// What it is and where, without secrets, as in `kafka at 10.0.0.1:9092`.
    fn describe(&self) -> String;

    /// What an operator should know although it works: missing durability, limits that do not fit.
    async fn warnings(&self) -> Vec<String> {
        Vec::new()
    }
}

/// What silence about one event means: `retry` if the receiver answers others, or one bad event would stall all of them;
/// `unavailable` if the health check fails too.
pub async fn after_silence(sink: &impl Sink, silence: &str, patience: Duration) -> Outcome {
    match tokio::time::timeout(patience, sink.check()).await {
        Ok(Ok(())) => Outcome::retry(format!("{silence}, although the receiver is there")),
        Ok(Err(reason)) => Outcome::unavailable(format!("{silence}, nor to a check: {reason}")),
        Err(_) => Outcome::unavailable(format!("{silence}, nor to a check within {patience:?}")),
    }
}

/// What words mean that may be about the receiver or about one event: a check tells.
pub async fn unless_away(sink: &impl Sink, words: String, patience: Duration) -> Outcome {
    match tokio::time::timeout(patience, sink.check()).await {
        Ok(Ok(())) => Outcome::retry(words),
        _ => Outcome::unavailable(words),
    }
}

/// What a page's unsent events are marked with when its time is over. It costs them no attempt.
pub fn too_late() -> Outcome {
    Outcome::unavailable("not sent yet: the receiver is slow, and the time of this page is over")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Connecting, then the last event that may be sent, then a check after its silence.
    #[tokio::test(start_paused = true)]
    async fn everything_that_may_be_waited_for_fits_into_the_time_of_a_page() {
        for page_time in [1, 10, 60, 600].map(Duration::from_secs) {
            for wished in [1, 5, 10, 300].map(Duration::from_secs) {
                let mut route = Route::new("s");
                route.page_time = page_time;
                let patience = route.patience(wished);
                let last_start = route.last_start(&Page::new(Vec::new()), patience) - Instant::now();
                assert!(patience < last_start, "something is sent even if connecting took its time");
                let whole = last_start + patience + patience / 8 + patience;
                assert!(whole < page_time, "{whole:?} of {page_time:?} for {wished:?}");
            }
        }
        assert_eq!(Route::new("s").patience(Duration::from_secs(10)), Duration::from_secs(10), "by default");
    }

    #[tokio::test(start_paused = true)]
    async fn a_page_that_has_less_time_than_declared_is_over_sooner() {
        let (route, longest) = (Route::new("s"), Duration::from_secs(1));
        let start_of = |page: Page| route.last_start(&page, longest) - Instant::now();
        let page = || Page::new(Vec::new());
        assert_eq!(start_of(page().within(Duration::from_secs(20))), Duration::from_secs(17));
        assert_eq!(
            start_of(page().within(route.page_time * 2)),
            start_of(page()),
            "never later than declared"
        );
        assert_eq!(
            start_of(page().within(Duration::from_secs(2))),
            Duration::from_millis(200),
            "never at once"
        );
    }
}
