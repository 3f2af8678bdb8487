//! Checking once more at delivery: what does not fit the registry is dead before it reaches the sink.

use std::collections::HashSet;

use async_trait::async_trait;

use crate::outcome::Outcome;
use crate::page::Page;
use crate::registry::Registry;
use crate::sink::Sink;
use crate::subscription::Order;

/// A sink that only sees events that fit the registry.
#[derive(Debug)]
pub struct Checked<S> {
    registry: Registry,
    sink: S,
    order: Order,
}

impl Registry {
    /// Puts the registry before a sink: events that do not fit are dead at once, with a reason that names the field; the
    /// others go on. `order` is the subscription's.
    pub fn checked<S: Sink>(&self, sink: S, order: Order) -> Checked<S> {
        Checked { registry: self.clone(), sink, order }
    }
}

impl<S: Sink> Checked<S> {
    /// Marks the misfits and returns the places of the others. In order, what follows a misfit of its key waits for the
    /// next page, by when the dead letter is settled.
    fn sort_out(&self, page: &mut Page) -> Vec<usize> {
        let (mut fitting, mut held) = (Vec::new(), HashSet::new());
        for index in 0..page.events().len() {
            let event = page.events()[index].clone();
            let line = match self.order {
                Order::None => None,
                Order::Key => event.key.clone(),
                Order::Strict => Some(String::new()),
            };
            if line.as_ref().is_some_and(|line| held.contains(line)) {
                continue;
            }
            match self.registry.check(&event) {
                Ok(()) => fitting.push(index),
                Err(misfit) => {
                    held.extend(line);
                    page.mark(index, Outcome::dead(misfit));
                }
            }
        }
        fitting
    }
}

#[async_trait]
impl<S: Sink> Sink for Checked<S> {
    async fn deliver(&self, page: &mut Page) {
        let fitting = self.sort_out(page);
        if fitting.is_empty() {
            return;
        }
        let mut part = page.select(&fitting);
        self.sink.deliver(&mut part).await;
        for (place, index) in fitting.into_iter().enumerate() {
            page.reached(index, part.step(place));
            if let Some(outcome) = part.outcome(place) {
                page.mark(index, outcome.clone());
            }
        }
    }

    async fn check(&self) -> Result<(), String> {
        self.sink.check().await
    }

    fn overlaps(&self) -> bool {
        self.sink.overlaps()
    }
}
