//! Delivering to JetStream.

use std::collections::HashSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_nats::jetstream::Context;
use async_nats::jetstream::context::{GetStreamByNameErrorKind, PublishError, PublishErrorKind};
use async_trait::async_trait;
use posthaste::{Event, EventId, Outcome, Page, Sink};
use serde_json::Value;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::{Instant, timeout, timeout_at};

use super::answers::{Expected, Stored};
use super::connection::{Connection, chain};
use super::errors::{Destination, Failure, failure};
use super::message::{message, subject};
use super::settings::NatsSettings;
use super::warnings;
use crate::chains;
use crate::endpoint::{Endpoint, Route, too_late};
use crate::suspicion::{Suspects, Suspicion};

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
    suspicion: Suspicion,
}

/// An event of a page, about to be sent.
struct Parcel {
    index: usize,
    event: Arc<Event>,
    attempt: u32,
}

impl NatsSink {
    /// Opens nothing yet: the first page or health check connects.
    pub fn new(mut settings: NatsSettings, route: Route) -> Result<Self, String> {
        settings.timeout = route.patience(settings.timeout);
        Ok(Self {
            in_flight: Semaphore::new(settings.in_flight),
            settings,
            route,
            connection: tokio::sync::Mutex::default(),
            unsure: Mutex::default(),
            unexpected_duplicates: AtomicU64::new(0),
            suspicion: Suspicion::default(),
        })
    }

    /// How often the stream said at a first attempt that it has the event already. That is an alarm: another subscription
    /// delivers to the same stream, or somebody uses our event ids for other messages, or another worker has sent the
    /// event before it was lost.
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

    /// The connection, if it is there and lives and nobody is about to replace it.
    fn at_hand(&self) -> Option<Arc<Connection>> {
        self.connection.try_lock().ok()?.as_ref().filter(|connection| connection.is_alive()).cloned()
    }

    /// Throws a connection away that does not answer any more.
    async fn forget(&self, connection: &Arc<Connection>) {
        let mut place = self.connection.lock().await;
        if place.as_ref().is_some_and(|current| Arc::ptr_eq(current, connection)) {
            *place = None;
        }
    }

    async fn send(&self, suspects: &Suspects<'_>, parcel: &Parcel, last_start: Instant) -> Outcome {
        let Parcel { index, event, attempt } = parcel;
        let Some(turn) = self.turn(last_start).await else { return too_late() };
        // The one that works now: what was silent about an earlier event of the page is forgotten.
        let connection = match self.at_hand() {
            Some(connection) => connection,
            // What is rare is boxed, here and below, or every event of a page would take the room for it.
            None => match Box::pin(timeout_at(last_start, self.connection())).await {
                Ok(Ok(connection)) => connection,
                Ok(Err(sentence)) => return Outcome::unavailable(sentence),
                Err(_) => return too_late(),
            },
        };
        let sent = Instant::now();
        let answer = match self.publish(&connection, event, sent) {
            Ok(Ok(expected)) => expected.await,
            Ok(Err(error)) => Err(error),
            Err(sentence) => return Outcome::dead(format!("NATS: {sentence}")),
        };
        drop(turn);
        match answer {
            Ok(stored) => {
                suspects.accepted();
                self.delivered(event, *attempt, &stored)
            }
            Err(error) => match Box::pin(self.failed(&connection, event, &error)).await {
                Failure::Refused(reason) if is_silence(&error) => {
                    suspects.suspect(*index, sent, Outcome::retry(reason))
                }
                failure => failure.outcome(self.destination()),
            },
        }
    }

    /// The outer error says why there can be no message for this event.
    fn publish<'c>(
        &self,
        connection: &'c Connection,
        event: &Event,
        now: Instant,
    ) -> Result<Result<Expected<'c>, PublishError>, String> {
        let subject = subject(&self.settings.subject, event)?;
        let (headers, body) = message(&self.route, self.settings.stream.as_deref(), event)?;
        Ok(connection.publish(now, subject, headers, body))
    }

    /// Pages that are delivered at once wait here for each other, which is no silence of the server.
    async fn turn(&self, last_start: Instant) -> Option<SemaphorePermit<'_>> {
        match self.in_flight.try_acquire() {
            Ok(turn) => Some(turn),
            Err(_) => Box::pin(timeout_at(last_start, self.in_flight.acquire())).await.ok()?.ok(),
        }
    }

    fn delivered(&self, event: &Event, attempt: u32, stored: &Stored) -> Outcome {
        let known = self.forget_doubt(event.id);
        if let Stored::Already { stream, sequence } = stored
            && attempt == 1
            && !known
        {
            self.unexpected_duplicates.fetch_add(1, Ordering::Relaxed);
            tracing::warn!(
                subscription = %self.route.subscription,
                event = %event.id,
                stream = %stream,
                sequence,
                "the stream already has a message with this event's id, although this is the first attempt to send it, and \
                 dropped this one: either another subscription or step delivers to the same stream (give each a stream \
                 of its own), or another worker sent it and was lost (harmless), or something else publishes with our \
                 event ids; compare the message at this sequence with the event"
            );
        }
        Outcome::Delivered
    }

    async fn failed(&self, connection: &Arc<Connection>, event: &Event, error: &PublishError) -> Failure {
        let (silent, subject) =
            (is_silence(error), &subject(&self.settings.subject, event).unwrap_or_default());
        let mut failure = failure(error, subject);
        if silent || error.kind() == PublishErrorKind::StreamNotFound {
            let looking = self.second_look(connection, subject, silent);
            failure = timeout(self.settings.timeout, looking).await.ok().flatten().unwrap_or(failure);
        }
        if silent || matches!(failure, Failure::Away(_)) {
            self.remember(event.id);
        }
        if let (Failure::Away(reason), Some(complaint)) = (&mut failure, connection.complaint()) {
            reason.push_str(&format!("; the server said: {complaint}"));
        }
        failure
    }

    fn destination(&self) -> Destination {
        let to_one_subject = self.settings.subject.as_literal().is_some();
        Destination { to_one_subject, to_one_stream: to_one_subject || self.settings.stream.is_some() }
    }

    /// A stream without a leader looks like none, and a subject that is forbidden, that somebody else listens on, or whose
    /// stream does not acknowledge, looks like a server that hangs. One bad subject, or one bad event, must not stop the
    /// others, and an outage must not cost attempts, so it is worth a question; after silence over a new connection, for
    /// the event may be what the old one hangs by. Without an answer the first impression counts.
    async fn second_look(
        &self,
        connection: &Arc<Connection>,
        subject: &str,
        silent: bool,
    ) -> Option<Failure> {
        if silent {
            self.forget(connection).await;
        }
        let forbidden = |words: &String| {
            words.contains("Permissions Violation") && words.contains(&format!("\"{subject}\""))
        };
        if let Some(complaint) = connection.complaint().filter(forbidden) {
            return Some(Failure::NoDestination(format!("NATS: {complaint}")));
        }
        let jetstream = self.connection().await.ok()?.jetstream.clone();
        match jetstream.stream_by_subject(subject).await {
            Ok(stream) if silent => Some(look_at(&jetstream, &stream, subject).await),
            Ok(stream) => Some(Failure::Stream(no_answer(&stream, subject))),
            Err(error) if error.kind() == GetStreamByNameErrorKind::NotFound => Some(Failure::NoDestination(
                format!("NATS: no stream takes the subject {subject}; create one for it"),
            )),
            Err(_) => None,
        }
    }

    fn unsure(&self) -> MutexGuard<'_, HashSet<EventId>> {
        self.unsure.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether nobody knew before whether it had arrived. Mostly there is no doubt about any event.
    fn forget_doubt(&self, event: EventId) -> bool {
        let mut unsure = self.unsure();
        !unsure.is_empty() && unsure.remove(&event)
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

/// What the silence of a stream means that takes the subject: its fault if it tells nothing of itself either, or is not to
/// acknowledge; else it is about this event.
async fn look_at(jetstream: &Context, stream: &str, subject: &str) -> Failure {
    match jetstream.get_stream(stream).await {
        Ok(seen) if seen.cached_info().config.no_ack => Failure::Stream(format!(
            "NATS: the stream {stream} acknowledges nothing; set its no_ack to false (subject {subject})"
        )),
        Ok(_) => Failure::Refused(format!(
            "NATS: no acknowledgement for the subject {subject}, although the stream {stream} is there"
        )),
        Err(_) => Failure::Stream(no_answer(stream, subject)),
    }
}

fn is_silence(error: &PublishError) -> bool {
    error.kind() == PublishErrorKind::TimedOut
}

fn no_answer(stream: &str, subject: &str) -> String {
    format!("NATS: the stream {stream} does not answer for the subject {subject}; look for its leader")
}

#[async_trait]
impl Sink for NatsSink {
    /// One event of a key after the other, many keys at a time.
    async fn deliver(&self, page: &mut Page) {
        // Before connecting, which takes its share of the page's time.
        let last_start = self.route.last_start(page, self.settings.timeout);
        if let Err(sentence) = self.connection().await {
            return page.mark_rest(&Outcome::unavailable(sentence));
        }
        let parcel = |(index, event): (usize, &Arc<Event>)| {
            let (event, attempt) = (event.clone(), page.attempt(index));
            Parcel { index, event, attempt }
        };
        let parcels: Vec<Parcel> = page.events().iter().enumerate().map(parcel).collect();
        let suspects = self.suspicion.suspects();
        let send = |index: usize| self.send(&suspects, &parcels[index], last_start);
        chains::deliver(page, self.route.in_key_order, self.settings.in_flight, last_start, send).await;
        suspects.judge(page);
    }

    async fn check(&self) -> Result<(), String> {
        let patience = self.settings.timeout * 2;
        let answer = timeout(patience, self.look()).await;
        answer.unwrap_or_else(|_| Err(format!("{}: no answer within {patience:?}", self.describe())))
    }

    fn overlaps(&self) -> bool {
        true
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
