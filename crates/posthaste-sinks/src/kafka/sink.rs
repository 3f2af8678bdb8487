//! Delivering a page: a chain per key, each record with its own result.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use posthaste::{Event, Outcome, Page, Sink};
use rdkafka::error::KafkaError;
use rdkafka::types::RDKafkaErrorCode as Code;
use tokio::sync::RwLock;

use crate::chains;
use crate::endpoint::{Endpoint, Route};

use super::client::{Client, Handle};
use super::errors::{Trouble, outcome, trouble};
use super::record::Record;
use super::settings::KafkaSettings;
use super::warnings;

/// How often a record is sent in one attempt: once, again after the neighbours' or the producer's trouble.
const SENDINGS: usize = 4;

/// What a record may take beyond librdkafka's own deadline before we stop believing in it.
const PATIENCE: Duration = Duration::from_millis(1500);

const ASKING: Duration = Duration::from_secs(5);

/// Delivers to Kafka.
pub struct KafkaSink {
    settings: KafkaSettings,
    route: Route,
    client: Arc<Client>,
    /// Whoever sends holds it for reading; to be alone in a batch means to hold it for writing.
    traffic: RwLock<()>,
}

impl fmt::Debug for KafkaSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KafkaSink").field("settings", &self.settings).field("route", &self.route).finish()
    }
}

/// What came of sending a record once.
enum Sent {
    Accepted,
    /// librdkafka says so, but no broker said where.
    Supposedly,
    Failed(Code, Arc<Handle>),
}

impl KafkaSink {
    /// Opens it without waiting for the cluster; the error is a sentence.
    pub fn new(settings: KafkaSettings, route: Route) -> Result<Self, String> {
        let client = Arc::new(Client::new(&settings)?);
        Ok(Self { settings, route, client, traffic: RwLock::new(()) })
    }

    async fn deliver_one(&self, event: &Event) -> Outcome {
        let record = match Record::of(event, &self.settings, &self.route) {
            Ok(record) => record,
            Err(reason) => return Outcome::dead(reason),
        };
        match self.send(&record).await {
            None => Outcome::Delivered,
            Some(code) => {
                let detail = self.client.log.last_trouble().filter(|_| trouble(code) != Trouble::Batch);
                let literal = self.settings.topic.as_literal().is_some();
                outcome(code, &record.topic, literal, detail.as_deref())
            }
        }
    }

    /// Sends until the result is about this record, and returns what is left of an error.
    async fn send(&self, record: &Record) -> Option<Code> {
        let (mut alone, mut topic_asked, mut last) = (false, false, None);
        for _ in 0..SENDINGS {
            let (code, handle) = match self.send_once(record, alone).await {
                Sent::Accepted => return None,
                Sent::Supposedly => {
                    last = Some(Code::Inconsistent);
                    continue;
                }
                Sent::Failed(code, handle) => (code, handle),
            };
            last = Some(code);
            match trouble(code) {
                Trouble::Batch | Trouble::Neighbour if !alone => alone = true,
                Trouble::Topic if !topic_asked => {
                    topic_asked = true;
                    if !self.topic_is_there(&record.topic).await {
                        // A broker that is just starting knows no topic: then it is away, and the event is not to blame.
                        let away = self.ask(None).await.is_err();
                        last = last.filter(|_| !away).or(Some(Code::MessageTimedOut));
                        break;
                    }
                }
                Trouble::Producer => self.replace(&handle).await,
                _ => break,
            }
        }
        last
    }

    async fn send_once(&self, record: &Record, alone: bool) -> Sent {
        let (mut shared, mut exclusive) = (None, None);
        match alone {
            true => exclusive = Some(self.traffic.write().await),
            false => shared = Some(self.traffic.read().await),
        }
        let handle = self.client.current();
        let sending = handle.producer().send(record.to_send(), Duration::ZERO);
        let result = tokio::time::timeout(self.settings.timeout + PATIENCE, sending).await;
        drop((shared.take(), exclusive.take()));
        match result {
            // Without an offset librdkafka only concludes it, from the success of a later request. A broker that knows
            // nothing of this producer yet accepts a later request after refusing an earlier one, so the conclusion can be
            // wrong, and the event lost. Sending again costs at worst a duplicate.
            Ok(Ok(delivery)) if delivery.offset < 0 => Sent::Supposedly,
            Ok(Ok(_)) => {
                self.client.log.forget();
                Sent::Accepted
            }
            Ok(Err((error, _))) => Sent::Failed(code_of(&error), handle),
            Err(_) => Sent::Failed(Code::MessageTimedOut, handle),
        }
    }

    async fn replace(&self, spoilt: &Handle) {
        let (client, generation) = (self.client.clone(), spoilt.generation);
        let replacing = tokio::task::spawn_blocking(move || client.replace(generation));
        match replacing.await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::warn!(%error, "no new producer"),
            Err(error) => tracing::warn!(%error, "no new producer"),
        }
    }

    /// librdkafka remembers for minutes that a topic was not there; asking makes it look again.
    async fn topic_is_there(&self, topic: &str) -> bool {
        self.ask(Some(topic.to_owned())).await.is_ok()
    }

    /// Reaches the cluster, and sees the topic if there is one to see.
    async fn ask(&self, topic: Option<String>) -> Result<(), String> {
        let (client, within) = (self.client.clone(), ASKING.min(self.settings.timeout));
        let asking = tokio::task::spawn_blocking(move || see(&client, topic.as_deref(), within));
        asking.await.map_err(|error| error.to_string())?
    }
}

/// Blocks.
fn see(client: &Client, topic: Option<&str>, within: Duration) -> Result<(), String> {
    let metadata = client.metadata(topic, within).map_err(|error| {
        let code = code_of(&error);
        client.log.last_trouble().map_or_else(|| code.to_string(), |trouble| format!("{code}; {trouble}"))
    })?;
    let Some(topic) = topic else { return Ok(()) };
    let error = metadata.topics().iter().filter(|seen| seen.name() == topic).find_map(|seen| seen.error());
    match error {
        Some(error) => Err(format!("topic {topic}: {}", Code::from(error))),
        None => Ok(()),
    }
}

fn code_of(error: &KafkaError) -> Code {
    error.rdkafka_error_code().unwrap_or(Code::Unknown)
}

#[async_trait]
impl Sink for KafkaSink {
    async fn deliver(&self, page: &mut Page) {
        let events = page.events().to_vec();
        let last_start = self.route.last_start(self.settings.timeout);
        chains::deliver(page, self.route.in_key_order, events.len(), last_start, |index| {
            self.deliver_one(&events[index])
        })
        .await;
    }

    async fn check(&self) -> Result<(), String> {
        let topic = self.settings.topic.as_literal().map(str::to_owned);
        self.ask(topic).await.map_err(|reason| format!("{}: {reason}", self.describe()))
    }
}

#[async_trait]
impl Endpoint for KafkaSink {
    fn describe(&self) -> String {
        format!("kafka at {}", self.settings.brokers.join(","))
    }

    async fn warnings(&self) -> Vec<String> {
        warnings::of(&self.client, &self.settings).await
    }
}
