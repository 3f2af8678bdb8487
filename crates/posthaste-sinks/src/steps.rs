//! Several sinks in a row: an event is delivered when the last of them has accepted it.
//!
//! How far an event came is written with its delivery, so a retry goes on at the step that failed, also in another
//! process and after a person revived a dead letter. Only a worker that is lost, or cut off when it has to stop, writes
//! nothing: then the earlier steps are repeated, and see the event again with the same id. There is no memory here beside
//! the page's: an edited event and a replay mean all steps again, and a memory would skip them.

use std::collections::HashSet;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use async_trait::async_trait;
use futures::FutureExt;
use posthaste::{Outcome, Page, Sink};

use crate::endpoint::Endpoint;

/// Sinks in a row.
pub struct Steps {
    steps: Vec<Arc<dyn Endpoint>>,
    in_key_order: bool,
}

impl std::fmt::Debug for Steps {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Steps").field(&self.describe()).finish()
    }
}

impl Steps {
    /// Delivers to each of them, in this order.
    pub fn new(steps: Vec<Arc<dyn Endpoint>>, in_key_order: bool) -> Self {
        Self { steps, in_key_order }
    }

    /// Hands to one step the events that stand before it, and moves on those it accepted. An event that did not get
    /// through is marked with what this step said; one that it left unmarked stays so.
    async fn take(&self, step: usize, page: &mut Page, open: &mut [bool]) {
        let stands_here = |index: &usize| open[*index] && page.step(*index) as usize == step;
        let here: Vec<usize> = (0..open.len()).filter(stands_here).collect();
        if here.is_empty() {
            return;
        }
        let mut part = page.select(&here);
        self.hand_over(step, &mut part).await;
        for (place, index) in here.into_iter().enumerate() {
            match part.outcome(place) {
                // Said at once: a later step may panic or take too long, and what was reached until then counts.
                Some(Outcome::Delivered) => page.reached(index, page.step(index) + 1),
                other => {
                    open[index] = false;
                    if let Some(outcome) = other {
                        page.mark(index, at_step(step, outcome));
                    }
                }
            }
        }
    }

    /// A panic is the failure of what this step was handed, and of nothing else in the page.
    async fn hand_over(&self, step: usize, part: &mut Page) {
        let handing = AssertUnwindSafe(self.steps[step].deliver(part)).catch_unwind();
        if handing.await.is_err() {
            part.mark_rest(&Outcome::retry(format!("{} panicked", self.steps[step].describe())));
        }
    }

    /// In key order, an event behind one that was held up waits, even if it has more steps behind it.
    fn close_followers(&self, page: &Page, open: &mut [bool]) {
        let mut held: HashSet<&str> = HashSet::new();
        for (index, event) in page.events().iter().enumerate() {
            let Some(key) = event.key.as_deref().filter(|_| self.in_key_order) else { continue };
            if !open[index] {
                held.insert(key);
            } else if held.contains(key) {
                open[index] = false;
            }
        }
    }
}

/// The same outcome; its reason says which step spoke.
fn at_step(step: usize, outcome: &Outcome) -> Outcome {
    let mut outcome = outcome.clone();
    if let Outcome::Retry { reason, .. } | Outcome::Dead { reason } | Outcome::Unavailable { reason } =
        &mut outcome
    {
        *reason = format!("step {}: {reason}", step + 1);
    }
    outcome
}

#[async_trait]
impl Sink for Steps {
    async fn deliver(&self, page: &mut Page) {
        let mut open = vec![true; page.events().len()];
        for step in 0..self.steps.len() {
            self.take(step, page, &mut open).await;
            self.close_followers(page, &mut open);
        }
        // Also beyond the last step: there may have been more of them when an earlier attempt was made.
        for index in (0..open.len()).filter(|index| open[*index]) {
            page.delivered(index);
        }
    }

    async fn check(&self) -> Result<(), String> {
        for step in &self.steps {
            step.check().await?;
        }
        Ok(())
    }

    fn overlaps(&self) -> bool {
        self.steps.iter().all(|step| step.overlaps())
    }
}

#[async_trait]
impl Endpoint for Steps {
    fn describe(&self) -> String {
        let steps: Vec<String> = self.steps.iter().map(|step| step.describe()).collect();
        steps.join(", then ")
    }

    async fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        for step in &self.steps {
            warnings.extend(step.warnings().await);
        }
        warnings
    }
}
