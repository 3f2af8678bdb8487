//! Three subscriptions to the same events: a healthy one, a flaky one, and one that meets poison.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use posthaste::{Counters, Event, Posthaste, Subscription, Worker};
use serde_json::Value;

use super::application::TOPIC;
use crate::failure::Failure;

/// Their names, in the order they are shown.
pub(crate) const NAMES: [&str; 3] = ["shipping", "billing", "analytics"];

/// What a newcomer should know about each.
pub(crate) const CHARACTERS: [&str; 3] = ["healthy", "flaky, recovers by retry", "meets a poison event"];

/// The workers of the three.
#[derive(Debug)]
pub(crate) struct Subscriptions {
    workers: Vec<Worker>,
}

impl Subscriptions {
    pub(crate) async fn start(posthaste: &Posthaste, rate: u32) -> Result<Self, Failure> {
        let cards = Arc::new(CardService::failing_every(i64::from(rate.max(4))));
        let charge = move |event: Arc<Event>| {
            let cards = cards.clone();
            async move { cards.charge(&event).await }
        };
        let builders = [
            posthaste.handler(subscription("shipping", 5)?, ship),
            posthaste.handler(subscription("billing", 6)?, charge),
            posthaste.handler(subscription("analytics", 3)?, count_channel),
        ];
        let mut workers = Vec::new();
        for builder in builders {
            let started = builder.grace(Duration::from_secs(3)).start().await;
            workers.push(started.map_err(Failure::while_doing("start a subscription"))?);
        }
        Ok(Self { workers })
    }

    /// Database errors that the workers met and survived.
    pub(crate) fn database_errors(&self) -> u64 {
        self.workers.iter().map(|worker| worker.counters().errors()).sum()
    }

    /// Stops all workers at once; what they counted remains.
    pub(crate) async fn stop(self) -> Vec<Arc<Counters>> {
        let counters = self.workers.iter().map(|worker| worker.counters().clone()).collect();
        let stopping: Vec<_> = self.workers.into_iter().map(|worker| tokio::spawn(worker.stop())).collect();
        for stopped in stopping {
            drop(stopped.await);
        }
        counters
    }
}

/// Short delays, so that a person sees the whole story in ten seconds.
fn subscription(name: &str, max_attempts: u32) -> Result<Subscription, Failure> {
    let new = Subscription::new(name).map_err(Failure::while_doing("name a subscription"))?;
    Ok(new.topic(TOPIC).settings(|settings| {
        settings.max_attempts = max_attempts;
        settings.base_delay = Duration::from_millis(600);
        settings.max_delay = Duration::from_millis(1500);
        // After an end without a stop, the next run on a kept file waits this long for the old leases.
        settings.lease = Duration::from_secs(3);
    }))
}

/// `shipping`: always works.
async fn ship(_event: Arc<Event>) {
    work().await;
}

/// `analytics`: knows three channels. A better handler would answer `Outcome::dead` at once, for no retry will help;
/// this one does what most handlers do, returns an error, and lets the limit of attempts decide.
async fn count_channel(event: Arc<Event>) -> Result<(), String> {
    work().await;
    let order: Value = event.json().map_err(|error| error.to_string())?;
    match order["channel"].as_str() {
        Some("web" | "phone" | "shop") => Ok(()),
        other => Err(format!("unknown channel `{}`", other.unwrap_or("none"))),
    }
}

/// `billing` asks this service, which is away for some orders, one to three times each.
#[derive(Debug)]
struct CardService {
    failing_every: i64,
    failures: Mutex<HashMap<i64, i64>>,
}

impl CardService {
    fn failing_every(failing_every: i64) -> Self {
        Self { failing_every, failures: Mutex::default() }
    }

    async fn charge(&self, event: &Event) -> Result<(), String> {
        work().await;
        let order: Value = event.json().map_err(|error| error.to_string())?;
        match self.is_away(order["number"].as_i64().unwrap_or_default()) {
            true => Err("card service away".to_owned()),
            false => Ok(()),
        }
    }

    fn is_away(&self, number: i64) -> bool {
        if number % self.failing_every != 0 {
            return false;
        }
        let times = 1 + number / self.failing_every % 3;
        let mut failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
        let failed = failures.entry(number).or_default();
        *failed += 1;
        let away = *failed <= times;
        if !away {
            failures.remove(&number);
        }
        away
    }
}

/// Something that takes a moment.
async fn work() {
    tokio::time::sleep(Duration::from_millis(fastrand::u64(3..15))).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_card_service_comes_back_after_one_to_three_failures() {
        let cards = CardService::failing_every(4);
        for number in 1..100 {
            let failures = (0..10).take_while(|_| cards.is_away(number)).count();
            let expected = if number % 4 == 0 { 1..=3 } else { 0..=0 };
            assert!(expected.contains(&failures), "order {number} failed {failures} times");
        }
    }
}
