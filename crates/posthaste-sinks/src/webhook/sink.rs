//! Delivering: one request per event, one at a time per key, a bounded number at a time per receiver.

use std::fmt;
use std::time::Duration;

use async_trait::async_trait;
use posthaste::{Event, Outcome, Page, Sink};
use reqwest::{Client, Request, StatusCode};
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::{Instant, timeout_at};

use crate::chains;
use crate::endpoint::{Endpoint, Route, too_late};
use crate::tls::is_this_machine;

use super::address::{Lookup, system_lookup};
use super::answer::{Answer, words};
use super::rest::{Rest, Suspects};
use super::settings::WebhookSettings;
use super::{client, request};

/// A health check is over after this time, or sooner if the subscription has little.
const CHECK: Duration = Duration::from_secs(5);

/// The sink.
pub struct WebhookSink {
    settings: WebhookSettings,
    route: Route,
    client: Client,
    checker: Client,
    slots: Semaphore,
    rest: Rest,
    suspects: Suspects,
}

/// Without the clients, which know the proxy's password.
impl fmt::Debug for WebhookSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WebhookSink")
            .field("settings", &self.settings)
            .field("route", &self.route)
            .finish_non_exhaustive()
    }
}

impl WebhookSink {
    /// Opens it without connecting; the error is a sentence.
    pub fn new(settings: WebhookSettings, route: Route) -> Result<Self, String> {
        Self::with_lookup(settings, route, &system_lookup())
    }

    fn with_lookup(mut settings: WebhookSettings, route: Route, lookup: &Lookup) -> Result<Self, String> {
        settings.timeout = route.long_patience(settings.timeout);
        let (client, checker) = client::clients(&settings, lookup)?;
        let slots = Semaphore::new(settings.concurrency);
        let (rest, suspects) = (Rest::default(), Suspects::default());
        Ok(Self { settings, route, client, checker, slots, rest, suspects })
    }

    /// Sends one event, unless it is too late for that or the receiver wants to be left alone.
    async fn send(&self, event: &Event, last_start: Instant) -> Outcome {
        let Some(_slot) = self.slot(last_start).await else {
            return too_late();
        };
        if let Some(reason) = self.rest.reason() {
            return Outcome::unavailable(reason);
        }
        match request::request(&self.settings, &self.route.envelope, event) {
            Ok(request) => self.attempt(event, request).await,
            Err(sentence) => Outcome::dead(sentence),
        }
    }

    /// A place among those that are being sent, if there is one in time.
    async fn slot(&self, last_start: Instant) -> Option<SemaphorePermit<'_>> {
        let slot = match self.slots.try_acquire() {
            Ok(slot) => Some(slot),
            Err(_) => timeout_at(last_start, self.slots.acquire()).await.ok()?.ok(),
        };
        slot.filter(|_| Instant::now() < last_start)
    }

    async fn attempt(&self, event: &Event, request: Request) -> Outcome {
        match self.client.execute(request).await {
            Ok(response) => self.heed(event, Answer::read(response, &self.settings.hidden).await),
            Err(error) if error.is_connect() => Outcome::unavailable(words(&error)),
            Err(error) if error.is_timeout() => self.after_silence().await,
            Err(error) => self.after_loss(event, &words(&error)).await,
        }
    }

    fn heed(&self, event: &Event, answer: Answer) -> Outcome {
        self.suspects.clear(event.id);
        if let Some(pause) = answer.pause() {
            self.rest.begin(pause, answer.sentence());
        } else if answer.status.is_success() {
            self.rest.end();
        }
        answer.outcome()
    }

    /// No answer in time. That is about the event only if the receiver answers others.
    async fn after_silence(&self) -> Outcome {
        let silence = format!("no answer within {:?}", self.settings.timeout);
        match self.is_there().await {
            Ok(_) => Outcome::retry(silence),
            Err(reason) => Outcome::unavailable(format!("{silence}, nor to a check: {reason}")),
        }
    }

    /// The connection broke before there was an answer.
    async fn after_loss(&self, event: &Event, lost: &str) -> Outcome {
        let there = self.is_there().await.is_ok();
        match there && self.suspects.suspect(event.id) {
            true => Outcome::retry(format!("the receiver is there, but hangs up on this event: {lost}")),
            false => Outcome::unavailable(lost),
        }
    }

    /// Asks on a new connection. Any answer of the receiver itself means that it is there: many answer only POST. A
    /// gateway that answers for it says that it is not.
    async fn is_there(&self) -> Result<StatusCode, String> {
        let request = request::check(&self.settings, self.settings.target.check_url())?;
        let patience = self.route.patience(CHECK);
        let answer = tokio::time::timeout(patience, self.checker.execute(request)).await;
        let response = answer.map_err(|_| format!("no answer within {patience:?}"))?;
        let status = response.map_err(|error| words(&error))?.status();
        match status.as_u16() {
            502..=504 => Err(format!("a gateway answered {status}")),
            _ => Ok(status),
        }
    }
}

#[async_trait]
impl Sink for WebhookSink {
    async fn deliver(&self, page: &mut Page) {
        let last_start = self.route.last_start(page, self.settings.timeout.max(self.route.patience(CHECK)));
        let events = page.events().to_vec();
        let send = |index: usize| self.send(&events[index], last_start);
        chains::deliver(page, self.route.in_key_order, self.settings.concurrency, last_start, send).await;
    }

    async fn check(&self) -> Result<(), String> {
        let at = |reason: String| format!("{}: {reason}", self.describe());
        if let Some(reason) = self.rest.reason() {
            return Err(at(reason));
        }
        match self.is_there().await.map_err(at)? {
            StatusCode::UNAUTHORIZED => {
                Err(at("the receiver answered 401 Unauthorized to a signed HEAD; are the secrets \
                                                the ones it knows?"
                    .to_owned()))
            }
            StatusCode::GONE => {
                Err(at("the receiver answered 410 Gone; pause or remove the subscription".to_owned()))
            }
            _ => Ok(()),
        }
    }
}

#[async_trait]
impl Endpoint for WebhookSink {
    fn describe(&self) -> String {
        format!("webhook at {}", self.settings.target)
    }

    async fn warnings(&self) -> Vec<String> {
        let (settings, target) = (&self.settings, &self.settings.target);
        let elsewhere = !is_this_machine(target.host());
        let facts = [
            (
                !target.is_https() && elsewhere,
                "events travel unencrypted; anybody on the way can read them: use https://",
            ),
            (
                settings.allow_private && elsewhere,
                "allow_private is on: whoever controls the receiver's DNS decides which machine of your network is \
                 reached",
            ),
            (
                settings.proxy.is_some(),
                "the proxy connects: private addresses are refused only if the proxy refuses them",
            ),
        ];
        let told = facts.iter().filter(|(holds, _)| *holds);
        told.map(|(_, sentence)| format!("{}: {sentence}", self.describe())).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::net::{SocketAddr, TcpListener};
    use std::sync::Arc;

    use chrono::DateTime;
    use posthaste::NewEvent;
    use serde_json::json;

    use super::*;
    use crate::problems::Problems;
    use crate::section::{Section, Surroundings};

    /// A sink whose only known name, `receiver.test`, is this machine.
    fn sink(port: u16, allow_private: bool) -> WebhookSink {
        sink_for("127.0.0.1", port, allow_private)
    }

    /// The same with another answer of DNS.
    fn sink_for(address: &str, port: u16, allow_private: bool) -> WebhookSink {
        let table = json!({ "url": format!("http://receiver.test:{port}/"), "secrets": [{ "env": "SECRET" }],
            "allow_plain_http": true, "allow_private": allow_private, "timeout": "1s" });
        let (problems, mut surroundings) = (Problems::default(), Surroundings::default());
        surroundings.variables.insert("SECRET".into(), "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw".into());
        let fields = table.as_object().expect("a table");
        let settings = WebhookSettings::validate(&Section::new("", fields, &problems, &surroundings));
        let here = SocketAddr::new(address.parse().expect("an address"), 0);
        let here: Lookup = Arc::new(move |_| Box::pin(async move { Ok(vec![here]) }));
        WebhookSink::with_lookup(settings.expect("settings"), Route::new("s"), &here).expect("a sink")
    }

    async fn reason(sink: &WebhookSink, last_start: Instant) -> String {
        let event = NewEvent::bytes("t", "x").stored(1, DateTime::UNIX_EPOCH);
        match sink.send(&event, last_start).await {
            Outcome::Unavailable { reason } => reason,
            other => panic!("{other:?}"),
        }
    }

    #[tokio::test]
    async fn a_name_that_leads_to_a_private_address_is_not_connected_to() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        listener.set_nonblocking(true).expect("ask only");
        let port = listener.local_addr().expect("an address").port();
        let soon = Instant::now() + Duration::from_secs(60);
        let refused = reason(&sink(port, false), soon).await;
        assert!(refused.contains("receiver.test is 127.0.0.1, a loopback address"), "{refused}");
        assert!(sink(port, false).check().await.expect_err("refused").contains("allow_private"));
        assert!(listener.accept().is_err(), "nobody came");
        // Nobody answers, but somebody comes.
        reason(&sink(port, true), soon).await;
        listener.accept().expect("somebody came");
    }

    /// All of these are this machine. Each is tried with permission too, to show that somebody would have come.
    #[tokio::test]
    async fn no_answer_of_dns_leads_to_a_blocked_range() {
        let both = TcpListener::bind("[::]:0").or_else(|_| TcpListener::bind("0.0.0.0:0"));
        let listener = both.expect("a port");
        listener.set_nonblocking(true).expect("ask only");
        let port = listener.local_addr().expect("an address").port();
        let (soon, mut reached) = (Instant::now() + Duration::from_secs(60), 0);
        for address in
            ["127.0.0.1", "127.8.8.8", "0.0.0.0", "::1", "::", "::ffff:127.0.0.1", "::ffff:7f08:808"]
        {
            let refused = reason(&sink_for(address, port, false), soon).await;
            assert!(refused.contains("allow_private"), "{address}: {refused}");
            assert!(sink_for(address, port, false).check().await.is_err(), "{address}");
            assert!(listener.accept().is_err(), "{address}: nobody came");
            reason(&sink_for(address, port, true), soon).await;
            while listener.accept().is_ok() {
                reached += 1;
            }
        }
        assert!(reached >= 3, "without the guard this machine is reached");
        println!("control: with allow_private {reached} connections to this machine, without it 0");
    }

    #[tokio::test]
    async fn what_is_too_late_is_not_sent() {
        let late = reason(&sink(1, true), Instant::now()).await;
        assert!(late.starts_with("not sent yet"), "{late}");
    }
}
