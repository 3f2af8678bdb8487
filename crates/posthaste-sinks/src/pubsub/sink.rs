//! Publishing pages.

use std::collections::HashMap;

use async_trait::async_trait;
use futures::stream::{FuturesUnordered, StreamExt};
use google_cloud_pubsub::client::Publisher;
use google_cloud_pubsub::error::PublishError;
use google_cloud_pubsub::model::Message;
use google_cloud_pubsub::publisher::PublishFuture;
use posthaste::{Outcome, Page, Sink};
use tokio::time::{Instant, timeout_at};

use super::client::{Batching, Client};
use super::course::Course;
use super::errors::{Failure, failure};
use super::health;
use super::message::message;
use super::settings::{Credentials, PubsubSettings, service_account};
use crate::endpoint::{Endpoint, Route};
use crate::suspicion::Suspicion;

type Marks = Vec<(usize, Outcome)>;

/// Publishes events.
#[derive(Debug)]
pub struct PubsubSink {
    route: Route,
    client: Client,
    suspicion: Suspicion,
}

/// A message on its way, with its place in the page.
#[derive(Debug, Clone)]
struct Parcel {
    index: usize,
    topic: String,
    message: Message,
}

impl PubsubSink {
    /// Nothing is connected yet; the error is a sentence.
    pub fn new(mut settings: PubsubSettings, route: Route) -> Result<Self, String> {
        settings.timeout = route.long_patience(settings.timeout);
        if let Credentials::File(path) = &settings.credentials {
            service_account(path)?;
        }
        Ok(Self { route, client: Client::new(settings), suspicion: Suspicion::default() })
    }

    fn settings(&self) -> &PubsubSettings {
        self.client.settings()
    }

    fn parcel(&self, page: &Page, index: usize) -> Result<Parcel, String> {
        let event = &page.events()[index];
        let topic = self.settings().topic_name(&self.settings().topic.render(event)?)?;
        Ok(Parcel { index, topic, message: message(event, &self.route)? })
    }

    /// The messages of each key, in order, until one of them can never be sent; that one is marked.
    fn chains(&self, page: &mut Page) -> Vec<Vec<Parcel>> {
        let mut chains: Vec<Vec<Parcel>> = Vec::new();
        let mut by_key: HashMap<String, Option<usize>> = HashMap::new();
        for index in 0..page.events().len() {
            let key = page.events()[index].key.clone().filter(|_| self.route.in_key_order);
            let chain = key.as_ref().and_then(|key| by_key.get(key)).copied();
            let parcel = match chain {
                Some(None) => continue,
                _ => self.parcel(page, index),
            };
            let place = match (parcel, chain.flatten()) {
                (Ok(parcel), Some(place)) => {
                    chains[place].push(parcel);
                    Some(place)
                }
                (Ok(parcel), None) => {
                    chains.push(vec![parcel]);
                    Some(chains.len() - 1)
                }
                (Err(reason), _) => {
                    page.mark(index, Outcome::dead(reason));
                    None
                }
            };
            by_key.extend(key.map(|key| (key, place)));
        }
        chains
    }

    /// Sends the messages of a key, until one is not accepted. As long as the topic stays the same they are sent at once:
    /// the client sends nothing of a key after a failure. Another topic is another sender, and waits.
    async fn send(&self, course: &Course<'_>, chain: Vec<Parcel>) -> Marks {
        let mut marks = Vec::with_capacity(chain.len());
        for run in chain.chunk_by(|left, right| left.topic == right.topic) {
            if let Some(failed) = self.send_run(course, run, &mut marks).await {
                marks.push(failed);
                break;
            }
        }
        marks
    }

    /// Several messages share a request, so that the failure of one hits them all: then each is sent alone.
    async fn send_run(
        &self,
        course: &Course<'_>,
        run: &[Parcel],
        marks: &mut Marks,
    ) -> Option<(usize, Outcome)> {
        let (before, sent) = (marks.len(), Instant::now());
        let (index, failure) = self.publish(course, run, Batching::Together, marks).await?;
        match failure {
            Failure::Refused(_) => {}
            Failure::Silence(silence) => {
                let outcome = course.ask(self, Batching::Together, &silence).await;
                if matches!(outcome, Outcome::Unavailable { .. }) {
                    return Some((index, outcome));
                }
                if course.is_one_event {
                    return Some((index, course.suspects.suspect(index, sent, outcome)));
                }
                course.suspects.fell_silent(sent);
            }
            other => return Some((index, other.outcome(self.has_one_topic()))),
        }
        let rest = &run[marks.len() - before..];
        let sent = Instant::now();
        let (index, failure) = self.publish(course, rest, Batching::Alone, marks).await?;
        Some((index, self.alone(course, index, failure, sent).await))
    }

    /// What the failure of a message means that had its own request.
    async fn alone(&self, course: &Course<'_>, index: usize, failure: Failure, sent: Instant) -> Outcome {
        let Failure::Silence(silence) = failure else { return failure.outcome(self.has_one_topic()) };
        course.suspects.suspect(index, sent, course.ask(self, Batching::Alone, &silence).await)
    }

    fn has_one_topic(&self) -> bool {
        self.settings().topic.as_literal().is_some()
    }

    /// Marks what was accepted, up to the first that was not.
    async fn publish(
        &self,
        course: &Course<'_>,
        run: &[Parcel],
        batching: Batching,
        marks: &mut Marks,
    ) -> Option<(usize, Failure)> {
        let first = run.first()?;
        if course.is_over() {
            return Some((first.index, Failure::Late));
        }
        let publisher = match self.publisher(course, first, batching).await {
            Ok(publisher) => publisher,
            Err(reason) => return Some((first.index, Failure::Away(reason))),
        };
        let sent: Vec<PublishFuture> =
            run.iter().map(|parcel| publisher.publish(parcel.message.clone())).collect();
        for (parcel, answer) in run.iter().zip(sent) {
            match self.answer(course, answer, &parcel.topic).await {
                Ok(()) => {
                    course.suspects.accepted();
                    marks.push((parcel.index, Outcome::Delivered));
                }
                Err(failure) => return Some((parcel.index, failure)),
            }
        }
        None
    }

    async fn publisher(
        &self,
        course: &Course<'_>,
        first: &Parcel,
        batching: Batching,
    ) -> Result<Publisher, String> {
        let opening = self.client.publisher(&first.topic, batching, &first.message.ordering_key);
        let late = |_| Err("no connection in time".to_owned());
        timeout_at(course.end, opening).await.unwrap_or_else(late)
    }

    /// The messages of a key may need several requests, one after the other; each has its time, the page has one for all.
    async fn answer(&self, course: &Course<'_>, answer: PublishFuture, topic: &str) -> Result<(), Failure> {
        let limit = self.settings().timeout;
        let patience = Instant::now() + limit;
        let late = |_| match patience <= course.end {
            true => Failure::Silence(format!("no answer within {limit:?}")),
            false => Failure::Late,
        };
        let answer = timeout_at(patience.min(course.end), answer).await.map_err(late)?;
        answer.map(drop).map_err(|error| {
            if matches!(error, PublishError::Shutdown) {
                self.client.forget(topic);
            }
            failure(&error, topic)
        })
    }
}

#[async_trait]
impl Sink for PubsubSink {
    async fn deliver(&self, page: &mut Page) {
        let course = Course::new(page, &self.route, self.settings().timeout, &self.suspicion);
        let chains = self.chains(page);
        // Marked as they come: what is marked counts, whatever becomes of the rest.
        let mut sending: FuturesUnordered<_> =
            chains.into_iter().map(|chain| self.send(&course, chain)).collect();
        while let Some(marks) = sending.next().await {
            marks.into_iter().for_each(|(index, outcome)| page.mark(index, outcome));
        }
        drop(sending);
        course.suspects.judge(page);
    }

    async fn check(&self) -> Result<(), String> {
        health::check(&self.client).await.map_err(|reason| format!("{}: {reason}", self.describe()))
    }

    fn overlaps(&self) -> bool {
        true
    }
}

#[async_trait]
impl Endpoint for PubsubSink {
    fn describe(&self) -> String {
        let settings = self.settings();
        let topic = settings.topic.as_literal().unwrap_or("(by event)");
        let place = settings.endpoint.as_deref().unwrap_or("Google");
        format!("pubsub projects/{}/topics/{topic} at {place}", settings.project)
    }

    async fn warnings(&self) -> Vec<String> {
        health::warnings(&self.client, self.route.in_key_order).await
    }
}
