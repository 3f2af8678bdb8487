//! Several sinks in a row: an event is delivered when the last of them has accepted it.
//!
//! What the store knows of the steps behind an event is written with its delivery row, so a retry goes on at the failed
//! step, also in another process. Where no row is written (the receiver is away, or the worker died with its batch) only
//! this process remembers, and after a restart the earlier steps are repeated: they see the event again, with the same id.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use posthaste::{EventId, Outcome, Page, Sink};

use crate::endpoint::Endpoint;

/// How many half-delivered events this process remembers. Beyond it the store's knowledge has to do.
const REMEMBERED: usize = 10_000;

/// Sinks in a row.
pub struct Steps {
    steps: Vec<Arc<dyn Endpoint>>,
    in_key_order: bool,
    /// Finished steps of events that no row tells of.
    finished: Mutex<HashMap<EventId, u32>>,
}

impl std::fmt::Debug for Steps {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Steps").field(&self.describe()).finish()
    }
}

impl Steps {
    /// Delivers to each of them, in this order.
    pub fn new(steps: Vec<Arc<dyn Endpoint>>, in_key_order: bool) -> Self {
        Self { steps, in_key_order, finished: Mutex::default() }
    }

    fn remembered(&self) -> MutexGuard<'_, HashMap<EventId, u32>> {
        self.finished.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many steps each event has behind it.
    fn finished(&self, page: &Page) -> Vec<u32> {
        let remembered = self.remembered();
        let known = |(index, event): (usize, &Arc<posthaste::Event>)| {
            page.step(index).max(remembered.get(&event.id).copied().unwrap_or(0))
        };
        page.events().iter().enumerate().map(known).collect()
    }

    /// Hands to one step the events that stand before it, and moves on those it accepted. An event that did not get
    /// through is marked with what this step said; one that it left unmarked stays so.
    async fn take(&self, step: usize, page: &mut Page, finished: &mut [u32], open: &mut [bool]) {
        let here: Vec<usize> =
            (0..finished.len()).filter(|index| open[*index] && finished[*index] as usize == step).collect();
        if here.is_empty() {
            return;
        }
        let mut part = page.select(&here);
        self.steps[step].deliver(&mut part).await;
        for (place, index) in here.into_iter().enumerate() {
            match part.outcome(place) {
                Some(Outcome::Delivered) => finished[index] += 1,
                other => {
                    open[index] = false;
                    if let Some(outcome) = other {
                        page.mark(index, outcome.clone());
                    }
                }
            }
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

    fn remember(&self, page: &mut Page, finished: &[u32]) {
        let mut remembered = self.remembered();
        for (index, steps) in finished.iter().copied().enumerate() {
            let id = page.events()[index].id;
            remembered.remove(&id);
            if steps as usize == self.steps.len() {
                page.delivered(index);
            } else if steps > 0 {
                page.reached(index, steps);
                if remembered.len() < REMEMBERED {
                    remembered.insert(id, steps);
                }
            }
        }
    }
}

#[async_trait]
impl Sink for Steps {
    async fn deliver(&self, page: &mut Page) {
        let mut finished = self.finished(page);
        let mut open = vec![true; finished.len()];
        for step in 0..self.steps.len() {
            self.take(step, page, &mut finished, &mut open).await;
            self.close_followers(page, &mut open);
        }
        self.remember(page, &finished);
    }

    async fn check(&self) -> Result<(), String> {
        for step in &self.steps {
            step.check().await?;
        }
        Ok(())
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
