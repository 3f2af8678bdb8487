//! Delivering pages over a link that is opened on demand and replaced when it breaks.

use std::sync::Arc;

use async_trait::async_trait;
use posthaste::{Event, Outcome, Page, Sink};
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout, timeout_at};

use super::errors::{self, Address};
use super::link::Link;
use super::message::Outgoing;
use super::settings::RabbitmqSettings;
use crate::chains;
use crate::endpoint::{Endpoint, Route, after_silence, too_late};
use crate::suspicion::{Suspects, Suspicion};
use crate::tls::is_this_machine;

/// Publishes events to exchanges.
#[derive(Debug)]
pub struct RabbitmqSink {
    settings: RabbitmqSettings,
    route: Route,
    link: Mutex<Option<Arc<Link>>>,
    suspicion: Suspicion,
}

/// What came of sending an event.
enum Sent {
    Known(Outcome),
    /// Since when, and what a check says.
    Silence(Instant, Outcome),
}

impl Sent {
    fn outcome(self, suspects: &Suspects<'_>, index: usize) -> Outcome {
        match self {
            Self::Silence(since, meaning) => suspects.suspect(index, since, meaning),
            Self::Known(Outcome::Delivered) => {
                suspects.accepted();
                Outcome::Delivered
            }
            Self::Known(outcome) => outcome,
        }
    }
}

impl RabbitmqSink {
    /// Nothing is opened yet.
    pub fn new(mut settings: RabbitmqSettings, route: Route) -> Result<Self, String> {
        settings.timeout = route.patience(settings.timeout);
        Ok(Self { settings, route, link: Mutex::default(), suspicion: Suspicion::default() })
    }

    /// The link, opened if there is none that works. Opening has a deadline, so waiting for the lock has one too.
    async fn link(&self) -> Result<Arc<Link>, String> {
        let mut current = self.link.lock().await;
        if let Some(link) = current.as_ref().filter(|link| link.is_open()) {
            return Ok(link.clone());
        }
        *current = None;
        let name = format!("posthaste {}", self.route.subscription);
        let link = Link::open(&self.settings, name)
            .await
            .map_err(|error| format!("{}: {error}", self.describe()))?;
        Ok(current.insert(Arc::new(link)).clone())
    }

    /// The link, if it is there and works and nobody is about to replace it.
    fn at_hand(&self) -> Option<Arc<Link>> {
        self.link.try_lock().ok()?.as_ref().filter(|link| link.is_open()).cloned()
    }

    /// A link that did not answer in time is not asked again.
    async fn forget(&self, link: &Arc<Link>) {
        let mut current = self.link.lock().await;
        if current.as_ref().is_some_and(|current| Arc::ptr_eq(current, link)) {
            *current = None;
        }
    }

    /// Over the link that works now: one that was silent about an earlier event of the page is forgotten.
    async fn send(&self, event: &Event, last_start: Instant) -> Sent {
        let link = match self.at_hand() {
            Some(link) => link,
            // What is rare is boxed, here and below, or every event of a page would take the room for it.
            None => match Box::pin(timeout_at(last_start, self.link())).await {
                Ok(Ok(link)) => link,
                Ok(Err(reason)) => return Sent::Known(Outcome::unavailable(reason)),
                Err(_) => return Sent::Known(too_late()),
            },
        };
        self.send_over(&link, event, last_start).await
    }

    async fn send_over(&self, link: &Arc<Link>, event: &Event, last_start: Instant) -> Sent {
        // What is sent to a blocked connection would wait, and arrive a second time later.
        if let Some(reason) = link.blocked() {
            return Sent::Known(Outcome::unavailable(blocked(&reason)));
        }
        let message = Outgoing::of(event, &self.settings, &self.route);
        let checked = message.and_then(|message| message.check_frame(link.frame_max()).map(|()| message));
        match checked {
            Ok(message) => match link.turn(last_start).await {
                Some(_turn) => self.publish(link, &message).await,
                None => Sent::Known(too_late()),
            },
            Err(reason) => Sent::Known(Outcome::dead(reason)),
        }
    }

    async fn publish(&self, link: &Arc<Link>, message: &Outgoing) -> Sent {
        let (address, sent) = (self.address(message), Instant::now());
        let publishing = timeout(self.settings.timeout, link.publish(message));
        tokio::select! {
            done = publishing => match done {
                Ok(Ok(confirmation)) => Sent::Known(errors::of_confirmation(&confirmation, address)),
                Ok(Err(error)) => Sent::Known(errors::of_error(&error, address)),
                Err(_) => Sent::Silence(sent, Box::pin(self.after_silence(link)).await),
            },
            reason = link.until_blocked() => Sent::Known(Outcome::unavailable(blocked(&reason))),
        }
    }

    async fn after_silence(&self, link: &Arc<Link>) -> Outcome {
        let patience = self.settings.timeout;
        // Who holds the lock for longer opens another link, and has forgotten this one.
        drop(timeout(patience / 8, self.forget(link)).await);
        after_silence(self, &format!("no confirmation within {patience:?}"), patience).await
    }

    fn address<'m>(&self, message: &'m Outgoing) -> Address<'m> {
        Address {
            exchange: message.exchange.as_str(),
            routing_key: message.routing_key.as_str(),
            fixed_exchange: self.settings.exchange.as_literal().is_some(),
            fixed_routing_key: self.settings.routing_key.as_literal().is_some(),
        }
    }

    /// The destination as far as it is the same for all events.
    async fn see_destination(&self, link: &Link) -> lapin::Result<()> {
        let (exchange, routing_key) = (&self.settings.exchange, &self.settings.routing_key);
        match (exchange.as_literal(), routing_key.as_literal()) {
            (Some(""), Some(queue)) => link.see_queue(queue).await,
            (Some(""), None) | (None, _) => link.see_server().await,
            (Some(exchange), _) => link.see_exchange(exchange).await,
        }
    }
}

#[async_trait]
impl Sink for RabbitmqSink {
    async fn deliver(&self, page: &mut Page) {
        // Before connecting, which takes its share of the page's time.
        let last_start = self.route.last_start(page, self.settings.timeout);
        if let Err(reason) = self.link().await {
            return page.mark_rest(&Outcome::unavailable(reason));
        }
        let (events, suspects) = (page.events().to_vec(), self.suspicion.suspects());
        let (in_key_order, in_flight) = (self.route.in_key_order, self.settings.in_flight);
        let send = async |index: usize| self.send(&events[index], last_start).await.outcome(&suspects, index);
        chains::deliver(page, in_key_order, in_flight, last_start, send).await;
        suspects.judge(page);
    }

    async fn check(&self) -> Result<(), String> {
        let link = self.link().await?;
        if let Some(reason) = link.blocked() {
            return Err(format!("{}: {}", self.describe(), blocked(&reason)));
        }
        match timeout(self.settings.timeout, self.see_destination(&link)).await {
            Ok(seen) => seen.map_err(|error| format!("{}: {error}", self.describe())),
            Err(_) => {
                self.forget(&link).await;
                Err(format!("{}: no answer within {:?}", self.describe(), self.settings.timeout))
            }
        }
    }

    fn overlaps(&self) -> bool {
        true
    }
}

#[async_trait]
impl Endpoint for RabbitmqSink {
    fn describe(&self) -> String {
        let RabbitmqSettings { host, port, vhost, .. } = &self.settings;
        format!("rabbitmq at {host}:{port}, vhost {vhost}")
    }

    /// Whether queues are durable or replicated cannot be asked over this protocol without the risk of creating one.
    async fn warnings(&self) -> Vec<String> {
        let RabbitmqSettings { host, tls, .. } = &self.settings;
        let open = !tls.on && !is_this_machine(host);
        let sentence = || format!("rabbitmq: the connection to {host} is not encrypted; write amqps://");
        open.then(sentence).into_iter().collect()
    }
}

fn blocked(reason: &str) -> String {
    format!("the server has blocked the connection ({reason}); look for a memory or disk alarm")
}
