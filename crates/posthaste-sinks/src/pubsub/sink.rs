//! Publishing pages.

use std::collections::HashMap;
use std::time::Duration;

use async_trait::async_trait;
use futures::future::join_all;
use google_cloud_pubsub::error::PublishError;
use google_cloud_pubsub::model::Message;
use google_cloud_pubsub::publisher::PublishFuture;
use posthaste::{Outcome, Page, Sink};
use tokio::time::timeout;

use super::client::{Batching, Client};
use super::errors::{Failure, failure};
use super::health;
use super::message::message;
use super::settings::{Credentials, PubsubSettings, service_account};
use crate::endpoint::{Endpoint, Route};

/// The client ends every request in time; should it fail to, we wait this much longer and no more.
const PATIENCE: Duration = Duration::from_secs(5);

/// Publishes events.
#[derive(Debug)]
pub struct PubsubSink {
    route: Route,
    client: Client,
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
    pub fn new(settings: PubsubSettings, route: Route) -> Result<Self, String> {
        if let Credentials::File(path) = &settings.credentials {
            service_account(path)?;
        }
        Ok(Self { route, client: Client::new(settings) })
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
    async fn send(&self, chain: Vec<Parcel>) -> Vec<(usize, Outcome)> {
        let mut marks = Vec::with_capacity(chain.len());
        for run in chain.chunk_by(|left, right| left.topic == right.topic) {
            let failed = self.send_run(run, &mut marks).await;
            if let Some((index, failure)) = failed {
                let only_topic = self.settings().topic.as_literal().is_some();
                marks.push((index, failure.outcome(only_topic)));
                break;
            }
        }
        marks
    }

    /// Several messages share a request, so that a refusal of one hits them all: then each is sent alone.
    async fn send_run(&self, run: &[Parcel], marks: &mut Vec<(usize, Outcome)>) -> Option<(usize, Failure)> {
        let before = marks.len();
        let failed = self.publish(run, Batching::Together, marks).await;
        match failed {
            Some((_, Failure::Refused(_))) => {
                let accepted = marks.len() - before;
                self.publish(&run[accepted..], Batching::Alone, marks).await
            }
            failed => failed,
        }
    }

    /// Marks what was accepted, up to the first that was not.
    async fn publish(
        &self,
        run: &[Parcel],
        batching: Batching,
        marks: &mut Vec<(usize, Outcome)>,
    ) -> Option<(usize, Failure)> {
        let first = run.first()?;
        let publisher = match self.client.publisher(&first.topic, batching, &first.message.ordering_key).await
        {
            Ok(publisher) => publisher,
            Err(reason) => return Some((first.index, Failure::Away(reason))),
        };
        let sent: Vec<PublishFuture> =
            run.iter().map(|parcel| publisher.publish(parcel.message.clone())).collect();
        for (parcel, answer) in run.iter().zip(sent) {
            match self.answer(answer, &parcel.topic).await {
                Ok(()) => marks.push((parcel.index, Outcome::Delivered)),
                Err(failure) => return Some((parcel.index, failure)),
            }
        }
        None
    }

    async fn answer(&self, answer: PublishFuture, topic: &str) -> Result<(), Failure> {
        let limit = self.settings().timeout + PATIENCE;
        let answer =
            timeout(limit, answer).await.map_err(|_| Failure::Away(format!("no answer within {limit:?}")))?;
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
        let chains = self.chains(page);
        let marks = join_all(chains.into_iter().map(|chain| self.send(chain))).await;
        for (index, outcome) in marks.into_iter().flatten() {
            page.mark(index, outcome);
        }
    }

    async fn check(&self) -> Result<(), String> {
        health::check(&self.client).await.map_err(|reason| format!("{}: {reason}", self.describe()))
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
