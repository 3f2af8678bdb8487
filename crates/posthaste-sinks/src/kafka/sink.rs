//! Delivering a page: a chain per key, each record with its own result.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use posthaste::{Outcome, Page, Sink};
use rdkafka::error::KafkaError;
use rdkafka::types::RDKafkaErrorCode as Code;
use tokio::sync::{Mutex, RwLock, RwLockReadGuard, RwLockWriteGuard};
use tokio::time::{Instant, timeout_at};

use crate::chains;
use crate::endpoint::{Endpoint, Route, too_late};
use crate::suspicion::{Suspects, Suspicion};

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
    /// When the cluster was last asked after silence, and what came of it.
    asked: Mutex<Option<(Instant, Result<(), String>)>>,
    suspicion: Suspicion,
}

impl fmt::Debug for KafkaSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KafkaSink").field("settings", &self.settings).field("route", &self.route).finish()
    }
}

/// Who sends at the moment.
enum Place<'s> {
    Shared(#[expect(dead_code, reason = "held, not read")] RwLockReadGuard<'s, ()>),
    Alone(#[expect(dead_code, reason = "held, not read")] RwLockWriteGuard<'s, ()>),
}

/// What came of sending a record once.
enum Sent {
    Accepted,
    /// Not at all: the page's time was over.
    TooLate,
    /// librdkafka says so, but no broker said where.
    Supposedly,
    Failed(Code, Arc<Handle>),
}

impl KafkaSink {
    /// Opens it without waiting for the cluster; the error is a sentence.
    pub fn new(mut settings: KafkaSettings, route: Route) -> Result<Self, String> {
        settings.timeout = route.patience(settings.timeout);
        let client = Arc::new(Client::new(&settings)?);
        let (traffic, asked, suspicion) = (RwLock::new(()), Mutex::default(), Suspicion::default());
        Ok(Self { settings, route, client, traffic, asked, suspicion })
    }

    /// Half of what is left to do after the last sending was begun: to end it, and to ask twice at most.
    fn longest(&self) -> Duration {
        (self.settings.timeout + PATIENCE + self.asking() * 2) / 2
    }

    fn asking(&self) -> Duration {
        ASKING.min(self.settings.timeout)
    }

    async fn deliver_one(
        &self,
        suspects: &Suspects<'_>,
        index: usize,
        record: &Result<Record<'_>, String>,
        last_start: Instant,
    ) -> Outcome {
        let begun = Instant::now();
        let record = match record {
            Ok(record) => record,
            Err(reason) => return Outcome::dead(reason),
        };
        match self.send(record, last_start).await {
            Ok(()) => {
                suspects.accepted();
                Outcome::Delivered
            }
            Err(None) => too_late(),
            Err(Some(code)) if trouble(code) == Trouble::Silence => {
                // What is rare is boxed, here and below, or every record of a page would take the room for it.
                suspects.suspect(index, begun, Box::pin(self.after_silence(record, begun)).await)
            }
            Err(Some(code)) => {
                let detail = self.client.log.last_trouble().filter(|_| trouble(code) != Trouble::Batch);
                let literal = self.settings.topic.as_literal().is_some();
                outcome(code, &record.topic, literal, detail.as_deref())
            }
        }
    }

    /// Sends until the result is about this record. What is left otherwise: an error, or none if it was too late.
    async fn send(&self, record: &Record<'_>, last_start: Instant) -> Result<(), Option<Code>> {
        let (mut alone, mut topic_asked, mut last) = (false, false, None);
        for _ in 0..SENDINGS {
            let (code, handle) = match self.send_once(record, alone, last_start).await {
                Sent::Accepted => return Ok(()),
                Sent::TooLate => return Err(None),
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
                    if !Box::pin(self.topic_is_there(&record.topic)).await {
                        // A broker that is just starting knows no topic: then it is away, and the event is not to blame.
                        let away = Box::pin(self.ask(None)).await.is_err();
                        last = last.filter(|_| !away).or(Some(Code::AllBrokersDown));
                        break;
                    }
                }
                Trouble::Producer => Box::pin(self.replace(&handle)).await,
                _ => break,
            }
        }
        Err(last)
    }

    /// A time-out does not tell whether the cluster, a partition or this record is the reason. What answers a question
    /// must not be waited for, or one record would stop all others.
    async fn after_silence(&self, record: &Record<'_>, since: Instant) -> Outcome {
        let silence = format!("kafka topic {}: no answer within {:?}", record.topic, self.settings.timeout);
        match self.answers_since(since).await {
            Ok(()) => Outcome::retry(format!("{silence}, although the cluster is there")),
            Err(reason) => Outcome::unavailable(format!("{silence}; {reason}")),
        }
    }

    /// Asks once for all records that fell silent together: asking costs a thread. An answer counts that is younger than
    /// the record's sending.
    async fn answers_since(&self, since: Instant) -> Result<(), String> {
        let mut asked = self.asked.lock().await;
        if let Some((_, answer)) = asked.as_ref().filter(|(when, _)| *when >= since) {
            return answer.clone();
        }
        let (when, answer) = (Instant::now(), self.check().await);
        *asked = Some((when, answer.clone()));
        answer
    }

    /// A place in the traffic, if there is one in time. Usually there is one at once.
    async fn place(&self, alone: bool, last_start: Instant) -> Option<Place<'_>> {
        let at_once = if alone { None } else { self.traffic.try_read().ok() };
        let waiting = async {
            match alone {
                true => Place::Alone(self.traffic.write().await),
                false => Place::Shared(self.traffic.read().await),
            }
        };
        let place = match at_once {
            Some(shared) => Some(Place::Shared(shared)),
            None => Box::pin(timeout_at(last_start, waiting)).await.ok(),
        };
        place.filter(|_| Instant::now() < last_start)
    }

    async fn send_once(&self, record: &Record<'_>, alone: bool, last_start: Instant) -> Sent {
        let Some(place) = self.place(alone, last_start).await else { return Sent::TooLate };
        let handle = self.client.current();
        let sending = match handle.producer().send_result(record.to_send()) {
            Ok(sending) => sending,
            Err((error, _)) => return Sent::Failed(code_of(&error), handle),
        };
        let result = tokio::time::timeout(self.settings.timeout + PATIENCE, sending).await;
        drop(place);
        match result.map_or(None, Result::ok) {
            // Without an offset librdkafka only concludes it, from the success of a later request. A broker that knows
            // nothing of this producer yet accepts a later request after refusing an earlier one, so the conclusion can be
            // wrong, and the event lost. Sending again costs at worst a duplicate.
            Some(Ok(delivery)) if delivery.offset < 0 => Sent::Supposedly,
            Some(Ok(_)) => {
                self.client.log.forget();
                Sent::Accepted
            }
            Some(Err((error, _))) => Sent::Failed(code_of(&error), handle),
            None => Sent::Failed(Code::MessageTimedOut, handle),
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
        let (client, within) = (self.client.clone(), self.asking());
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
    let Some(seen) = metadata.topics().iter().find(|seen| seen.name() == topic) else { return Ok(()) };
    let led = seen.partitions().iter().any(|partition| partition.leader() >= 0);
    match seen.error() {
        Some(error) => Err(format!("topic {topic}: {}", Code::from(error))),
        None if !led => Err(format!("topic {topic}: no partition has a leader")),
        None => Ok(()),
    }
}

fn code_of(error: &KafkaError) -> Code {
    error.rdkafka_error_code().unwrap_or(Code::Unknown)
}

#[async_trait]
impl Sink for KafkaSink {
    async fn deliver(&self, page: &mut Page) {
        let (events, suspects) = (page.events().to_vec(), self.suspicion.suspects());
        let last_start = self.route.last_start(page, self.longest());
        // All before the first is sent: librdkafka makes fewer and larger requests of what comes at once.
        let record = |event| Record::of(event, &self.settings, &self.route);
        let records: Vec<_> = events.iter().map(|event| record(event)).collect();
        chains::deliver(page, self.route.in_key_order, events.len(), last_start, |index| {
            self.deliver_one(&suspects, index, &records[index], last_start)
        })
        .await;
        suspects.judge(page);
    }

    async fn check(&self) -> Result<(), String> {
        let topic = self.settings.topic.as_literal().map(str::to_owned);
        self.ask(topic).await.map_err(|reason| format!("{}: {reason}", self.describe()))
    }

    fn overlaps(&self) -> bool {
        true
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

#[cfg(test)]
mod tests {
    use super::*;

    /// The last record that may be sent, and two questions after its silence.
    #[tokio::test(start_paused = true)]
    async fn everything_that_may_be_waited_for_fits_into_the_time_of_a_page() {
        for (page_time, timeout) in [(10, 8), (10, 50), (60, 1), (60, 8), (60, 50), (600, 50)] {
            let (mut route, mut settings) = (Route::new("s"), KafkaSettings::new(["127.0.0.1:1"]));
            route.page_time = Duration::from_secs(page_time);
            settings.timeout = Duration::from_secs(timeout);
            let sink = KafkaSink::new(settings, route).expect("opens");
            let last_start = sink.route.last_start(&Page::new(Vec::new()), sink.longest()) - Instant::now();
            let whole = last_start + sink.settings.timeout + PATIENCE + sink.asking() * 2;
            assert!(whole < sink.route.page_time, "{whole:?} of {page_time} s for {timeout} s");
        }
    }
}
