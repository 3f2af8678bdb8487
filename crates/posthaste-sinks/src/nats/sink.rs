//! Delivering to JetStream.

use std::collections::HashSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_nats::jetstream::context::{GetStreamByNameErrorKind, PublishError, PublishErrorKind};
use async_nats::jetstream::publish::PublishAck;
use async_trait::async_trait;
use bytes::Bytes;
use posthaste::{Event, EventId, Outcome, Page, Sink};
use serde_json::Value;
use tokio::sync::Semaphore;
use tokio::time::timeout;

use super::connection::{Connection, chain};
use super::errors::{Failure, failure};
use super::message::{message, subject};
use super::settings::NatsSettings;
use super::warnings;
use crate::chains;
use crate::endpoint::{Endpoint, Route};

/// How many events whose acknowledgement was lost are remembered, so that no alarm is raised about them.
const REMEMBERED: usize = 10_000;

/// Publishes events to JetStream.
#[derive(Debug)]
pub struct NatsSink {
    settings: NatsSettings,
    route: Route,
    connection: tokio::sync::Mutex<Option<Arc<Connection>>>,
    /// Over all pages that are delivered at the same time.
    in_flight: Semaphore,
    /// Sent by us, and nobody knows whether they arrived.
    unsure: Mutex<HashSet<EventId>>,
    unexpected_duplicates: AtomicU64,
}

impl NatsSink {
    /// Opens nothing yet: the first page or health check connects.
    pub fn new(settings: NatsSettings, route: Route) -> Result<Self, String> {
        Ok(Self {
            in_flight: Semaphore::new(settings.in_flight),
            settings,
            route,
            connection: tokio::sync::Mutex::default(),
            unsure: Mutex::default(),
            unexpected_duplicates: AtomicU64::new(0),
        })
    }

    /// How often the stream said at a first attempt that it has the event already. That is an alarm: either somebody uses
    /// our event ids for other messages, or another worker has sent the event before it was lost.
    pub fn unexpected_duplicates(&self) -> u64 {
        self.unexpected_duplicates.load(Ordering::Relaxed)
    }

    /// The connection, or a new one if there is none that lives. Whoever comes meanwhile waits for the same one.
    async fn connection(&self) -> Result<Arc<Connection>, String> {
        let mut place = self.connection.lock().await;
        if let Some(connection) = place.as_ref().filter(|connection| connection.is_alive()) {
            return Ok(connection.clone());
        }
        // The old one goes first: it must not live beside its successor.
        *place = None;
        let opened = Connection::open(&self.settings).await.map(Arc::new);
        *place = opened.as_ref().ok().cloned();
        opened.map_err(|sentence| format!("{}: {sentence}", self.describe()))
    }

    /// Throws a connection away that does not answer any more.
    async fn forget(&self, connection: &Arc<Connection>) {
        let mut place = self.connection.lock().await;
        if place.as_ref().is_some_and(|current| Arc::ptr_eq(current, connection)) {
            *place = None;
        }
    }

    async fn send(&self, connection: &Arc<Connection>, event: &Event, attempt: u32) -> Outcome {
        let prepared = subject(&self.settings.subject, event).and_then(|subject| {
            let (headers, body) = message(&self.route, self.settings.stream.as_deref(), event)?;
            Ok((subject, headers, body))
        });
        let (subject, headers, body) = match prepared {
            Ok(prepared) => prepared,
            Err(sentence) => return Outcome::dead(format!("NATS: {sentence}")),
        };
        match self.publish(connection, &subject, headers, body).await {
            Ok(ack) => self.delivered(event, attempt, &ack),
            Err(error) => self.failed(connection, event, &subject, &error).await,
        }
    }

    /// Waits for the acknowledgement; both waits end by the context's timeout.
    async fn publish(
        &self,
        connection: &Connection,
        subject: &str,
        headers: async_nats::HeaderMap,
        body: Bytes,
    ) -> Result<PublishAck, PublishError> {
        let _permit = self.in_flight.acquire().await;
        let sent = connection.jetstream.publish_with_headers(subject.to_owned(), headers, body);
        sent.await?.await
    }

    fn delivered(&self, event: &Event, attempt: u32, ack: &PublishAck) -> Outcome {
        let known = self.unsure().remove(&event.id);
        if ack.duplicate && attempt == 1 && !known {
            self.unexpected_duplicates.fetch_add(1, Ordering::Relaxed);
            tracing::warn!(
                subscription = %self.route.subscription,
                event = %event.id,
                stream = %ack.stream,
                sequence = ack.sequence,
                "the stream already has a message with this event's id, although this is the first attempt to send it: \
                 either another worker sent it and was lost, or something else publishes with our event ids, and then \
                 this event was not stored; compare the message at this sequence with the event"
            );
        }
        Outcome::Delivered
    }

    async fn failed(
        &self,
        connection: &Arc<Connection>,
        event: &Event,
        subject: &str,
        error: &PublishError,
    ) -> Outcome {
        let mut failure = failure(error, subject);
        let everywhere = self.settings.subject.as_literal().is_some();
        if matches!(error.kind(), PublishErrorKind::StreamNotFound | PublishErrorKind::TimedOut) {
            failure = second_look(connection, subject, failure).await;
        }
        if error.kind() == PublishErrorKind::TimedOut {
            self.forget(connection).await;
        }
        if let Failure::Away(reason) = &mut failure {
            self.remember(event.id);
            if let Some(complaint) = connection.complaint() {
                reason.push_str(&format!("; the server said: {complaint}"));
            }
        }
        failure.outcome(everywhere)
    }

    fn unsure(&self) -> MutexGuard<'_, HashSet<EventId>> {
        self.unsure.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn remember(&self, event: EventId) {
        let mut unsure = self.unsure();
        if unsure.len() < REMEMBERED {
            unsure.insert(event);
        }
    }

    /// Sees the stream if its name is known, or the one for the subject if that is known, or at least JetStream.
    async fn look(&self) -> Result<(), String> {
        let connection = self.connection().await?;
        let said =
            |error: &(dyn std::error::Error + 'static)| format!("{}: {}", self.describe(), chain(error));
        let jetstream = &connection.jetstream;
        match (&self.settings.stream, self.settings.subject.as_literal()) {
            (Some(stream), _) => jetstream.get_stream(stream).await.map(drop).map_err(|error| said(&error)),
            (None, Some(subject)) => {
                let found = jetstream.stream_by_subject(subject).await.map(drop);
                found.map_err(|error| format!("{} (subject {subject})", said(&error)))
            }
            // As plain JSON: the client's type for it does not know older servers.
            (None, None) => match jetstream.request::<_, _, Value>("INFO", &()).await {
                Ok(answer) if answer.get("error").is_none() => Ok(()),
                Ok(answer) => Err(format!("{}: {}", self.describe(), answer["error"]["description"])),
                Err(error) => Err(said(&error)),
            },
        }
    }
}

/// A stream without a leader looks like none, and a subject that is forbidden, or that somebody else listens on, looks like
/// a server that hangs. One bad subject must not stop the others, and an outage must not cost attempts, so it is
/// worth a question. Without an answer the first impression counts.
async fn second_look(connection: &Connection, subject: &str, failure: Failure) -> Failure {
    let forbidden =
        |words: &String| words.contains("Permissions Violation") && words.contains(&format!("\"{subject}\""));
    if let Some(complaint) = connection.complaint().filter(forbidden) {
        return Failure::NoDestination(format!("NATS: {complaint}"));
    }
    match connection.jetstream.stream_by_subject(subject).await {
        Ok(stream) => {
            Failure::Away(format!("NATS: the stream {stream} does not answer for the subject {subject}"))
        }
        Err(error) if error.kind() == GetStreamByNameErrorKind::NotFound => {
            Failure::NoDestination(format!("NATS: no stream takes the subject {subject}; create one for it"))
        }
        Err(_) => failure,
    }
}

#[async_trait]
impl Sink for NatsSink {
    /// One event of a key after the other, many keys at a time.
    async fn deliver(&self, page: &mut Page) {
        let connection = match self.connection().await {
            Ok(connection) => connection,
            Err(sentence) => return page.mark_rest(&Outcome::unavailable(sentence)),
        };
        let sends: Vec<(Arc<Event>, u32)> = page
            .events()
            .iter()
            .cloned()
            .enumerate()
            .map(|(index, event)| (event, page.attempt(index)))
            .collect();
        let send = |index: usize| {
            let (connection, (event, attempt)) = (&connection, &sends[index]);
            self.send(connection, event, *attempt)
        };
        let last_start = self.route.last_start(self.settings.timeout);
        chains::deliver(page, self.route.in_key_order, self.settings.in_flight, last_start, send).await;
    }

    async fn check(&self) -> Result<(), String> {
        let patience = self.settings.timeout * 2;
        let answer = timeout(patience, self.look()).await;
        answer.unwrap_or_else(|_| Err(format!("{}: no answer within {patience:?}", self.describe())))
    }
}

#[async_trait]
impl Endpoint for NatsSink {
    fn describe(&self) -> String {
        format!("nats at {}", self.settings.urls.join(", "))
    }

    async fn warnings(&self) -> Vec<String> {
        let Ok(connection) = self.connection().await else { return Vec::new() };
        let asked = warnings::ask(&connection, &self.settings, &self.route);
        timeout(self.settings.timeout * 2, asked).await.unwrap_or_default()
    }
}
