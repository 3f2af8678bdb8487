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

    /// Until when something that takes at most `longest` may be started, so that it, and a health check that takes no
    /// longer, are over before the engine gives the page up. What was not started in time is not sent: the engine would
    /// count an attempt at it.
    ///
    /// Never at once, or a sink with long deadlines would send nothing at all.
    pub(crate) fn last_start(&self, longest: Duration) -> Instant {
        let reserve = longest * 2 + self.page_time / 20;
        Instant::now() + self.page_time.saturating_sub(reserve).max(self.page_time / 10)
    }

    /// The longest a sink's `timeout` may be where the engine waits `page_time` for a page: then there is a tenth of it to
    /// start in, and time for a send and a check. In whole seconds, unless it is less than one.
    pub fn longest_timeout(page_time: Duration) -> Duration {
        let longest = page_time * 17 / 40;
        match longest.as_secs() {
            0 => Duration::from_millis(u64::from(longest.subsec_millis()).max(1)),
            seconds => Duration::from_secs(seconds),
        }
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
pub(crate) async fn after_silence(sink: &impl Sink, silence: &str, patience: Duration) -> Outcome {
    match tokio::time::timeout(patience, sink.check()).await {
        Ok(Ok(())) => Outcome::retry(format!("{silence}, although the receiver is there")),
        Ok(Err(reason)) => Outcome::unavailable(format!("{silence}, nor to a check: {reason}")),
        Err(_) => Outcome::unavailable(format!("{silence}, nor to a check within {patience:?}")),
    }
}

/// What words mean that may be about the receiver or about one event: a check tells.
pub(crate) async fn unless_away(sink: &impl Sink, words: String, patience: Duration) -> Outcome {
    match tokio::time::timeout(patience, sink.check()).await {
        Ok(Ok(())) => Outcome::retry(words),
        _ => Outcome::unavailable(words),
    }
}

/// What a page's unsent events are marked with when its time is over. It costs them no attempt.
pub(crate) fn too_late() -> Outcome {
    Outcome::unavailable("not sent yet: the receiver is slow, and the time of this page is over")
}

/// Events of a page about which the receiver was silent, each alone, although it answered a check.
#[derive(Debug, Default)]
pub(crate) struct Suspects(Vec<usize>);

impl Suspects {
    /// The event is marked to be retried; whether that is just, the rest of the page shows.
    pub(crate) fn note(&mut self, index: usize) {
        self.0.push(index);
    }

    /// Silence about several events while not one is accepted: that is the receiver, whatever its check says.
    pub(crate) fn are_innocent(&self, page: &Page) -> bool {
        let accepted = |index| page.outcome(index) == Some(&Outcome::Delivered);
        self.0.len() > 1 && !(0..page.events().len()).any(accepted)
    }

    /// Gives back the attempts that were not the events' fault.
    pub(crate) fn judge(&self, page: &mut Page) {
        if !self.are_innocent(page) {
            return;
        }
        for index in &self.0 {
            if let Some(Outcome::Retry { reason, .. }) = page.outcome(*index) {
                let reason = format!("{reason}, nor is anything accepted");
                page.mark(*index, Outcome::unavailable(reason));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use chrono::DateTime;
    use posthaste::NewEvent;

    use super::*;

    #[test]
    fn the_longest_timeout_leaves_time_to_start_in() {
        for (page, longest) in [(60_000, 25_000), (30_000, 12_000), (10_000, 4_000), (1_000, 425), (1, 1)] {
            let (page, longest) = (Duration::from_millis(page), Duration::from_millis(longest));
            assert_eq!(Route::longest_timeout(page), longest);
            if page > Duration::from_millis(1) {
                assert!(page / 10 + longest * 2 + page / 20 <= page, "{page:?}");
            }
        }
    }

    fn page_with_suspects(suspects: usize) -> (Page, Suspects) {
        let event = |seq| Arc::new(NewEvent::bytes("t", "x").stored(seq, DateTime::UNIX_EPOCH));
        let (mut page, mut noted) = (Page::new((0..3).map(event).collect()), Suspects::default());
        for index in 0..suspects {
            page.mark(index, Outcome::retry("silence"));
            noted.note(index);
        }
        (page, noted)
    }

    #[test]
    fn silence_about_several_events_is_theirs_only_if_others_are_accepted() {
        let word = |page: &Page| matches!(page.outcome(0), Some(Outcome::Unavailable { .. }));
        let (mut page, noted) = page_with_suspects(2);
        noted.judge(&mut page);
        assert!(word(&page), "nothing was accepted");
        let (mut page, noted) = page_with_suspects(2);
        page.delivered(2);
        noted.judge(&mut page);
        assert!(!word(&page), "another was accepted");
        let (mut page, noted) = page_with_suspects(1);
        noted.judge(&mut page);
        assert!(!word(&page), "or a single bad event would wait for ever");
    }
}
