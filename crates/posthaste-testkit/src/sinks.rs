//! What recording and failing sinks stand around: another sink, a handler, or one that accepts everything.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use posthaste::{Event, EventId, Handler, Outcome, Page, Sink};

/// Accepts everything.
pub(crate) struct Accepting;

#[async_trait]
impl Sink for Accepting {
    async fn deliver(&self, page: &mut Page) {
        page.mark_rest(&Outcome::Delivered);
    }
}

/// Hands events to a handler one after the other. What follows a failed one of its key stays unmarked.
pub(crate) struct OneByOne<H>(pub(crate) H);

#[async_trait]
impl<H: Handler> Sink for OneByOne<H> {
    async fn deliver(&self, page: &mut Page) {
        let mut failed = FailedKeys::default();
        for (index, event) in page.events().to_vec().into_iter().enumerate() {
            if failed.passed_over(&event) {
                continue;
            }
            let outcome = self.0.handle(event.clone()).await;
            failed.note(&event, Some(&outcome));
            page.mark(index, outcome);
        }
    }
}

/// Keys of which an event of this page was not delivered: later ones must not overtake it.
#[derive(Default)]
pub(crate) struct FailedKeys(HashSet<String>);

impl FailedKeys {
    pub(crate) fn passed_over(&self, event: &Event) -> bool {
        event.key.as_ref().is_some_and(|key| self.0.contains(key))
    }

    pub(crate) fn note(&mut self, event: &Event, outcome: Option<&Outcome>) {
        if outcome != Some(&Outcome::Delivered) {
            self.0.extend(event.key.clone());
        }
    }
}

/// Hands one event to a sink, for those who are told one event at a time.
pub(crate) async fn hand_over(sink: &dyn Sink, event: Arc<Event>, attempt: u32) -> Outcome {
    let mut page = Page::for_attempts([(event, attempt, 0)]);
    sink.deliver(&mut page).await;
    page.outcome(0)
        .cloned()
        .unwrap_or_else(|| Outcome::retry("the sink did not say what became of this event"))
}

/// How often each event came by.
#[derive(Debug, Default)]
pub(crate) struct Counts(Mutex<HashMap<EventId, u32>>);

impl Counts {
    /// Counts this time, and says the how-manieth it is.
    pub(crate) fn next(&self, id: EventId) -> u32 {
        let mut counts = lock(&self.0);
        let count = counts.entry(id).or_default();
        *count += 1;
        *count
    }
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
