//! Kafka, by librdkafka's mock cluster: a program of its own with everything in memory.

use std::time::Duration;

use async_trait::async_trait;
use posthaste_testkit::brokers::kafka::KafkaMock;
use rdkafka::config::ClientConfig;
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::{FutureProducer, FutureRecord, Producer};
use serde_json::{Value, json};
use tokio::sync::Mutex;

use super::broker::Broker;
use super::parcel::{Parcel, in_flight};
use crate::measure::Result;
use crate::ours::BATCH;

const TOPIC: &str = "orders";
const PARTITIONS: i32 = 4;

/// The settings of the sink.
const SETTINGS: [(&str, &str); 15] = [
    ("client.id", "posthaste"),
    ("linger.ms", "0"),
    ("partitioner", "murmur2_random"),
    ("batch.size", "1000000"),
    ("acks", "all"),
    ("enable.idempotence", "true"),
    ("message.max.bytes", "1000000"),
    ("message.timeout.ms", "8000"),
    ("request.timeout.ms", "5000"),
    ("socket.timeout.ms", "6000"),
    ("reconnect.backoff.ms", "50"),
    ("reconnect.backoff.max.ms", "250"),
    ("topic.metadata.propagation.max.ms", "3000"),
    ("security.protocol", "plaintext"),
    ("log_level", "6"),
];

pub(super) struct Kafka {
    mock: KafkaMock,
    /// How many messages there were when they were last forgotten: a partition cannot be emptied.
    before: Mutex<u64>,
}

impl Kafka {
    fn producer(&self) -> Result<FutureProducer> {
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", self.mock.brokers());
        config.extend(SETTINGS.map(|(name, value)| (name.to_owned(), value.to_owned())));
        Ok(config.create()?)
    }

    /// Blocks for a moment.
    fn ever(&self) -> Result<u64> {
        let producer = self.producer()?;
        let (client, patience) = (producer.client(), Duration::from_secs(10));
        let ends = (0..PARTITIONS).map(|partition| client.fetch_watermarks(TOPIC, partition, patience));
        ends.map(|ends| Ok(u64::try_from(ends?.1)?)).sum()
    }
}

#[async_trait]
impl Broker for Kafka {
    const NAME: &'static str = "brokers kafka";
    const TITLE: &'static str = "Kafka (librdkafka's mock cluster)";
    const EVENTS: u64 = 200_000;
    const PREFIX: &'static str = "ce_";

    async fn start() -> Result<Self> {
        let mock = KafkaMock::start()?;
        mock.tell(&format!("topic {TOPIC} {PARTITIONS}"));
        Ok(Self { mock, before: Mutex::new(0) })
    }

    async fn clear(&self) -> Result<()> {
        *self.before.lock().await = self.ever()?;
        Ok(())
    }

    async fn count(&self) -> Result<u64> {
        Ok(self.ever()? - *self.before.lock().await)
    }

    fn sink(&self) -> Value {
        let brokers: Vec<&str> = self.mock.brokers().split(',').collect();
        json!({ "type": "kafka", "brokers": brokers })
    }

    /// As many under way as the sink has: a page.
    async fn send(&self, parcels: &[Parcel]) -> Result<Duration> {
        let producer = self.producer()?;
        producer.client().fetch_metadata(Some(TOPIC), Duration::from_secs(10))?;
        in_flight(parcels, BATCH as usize, |parcel| {
            let sent = producer.send_result(record(parcel)).map_err(|(error, _)| error);
            async move {
                let sent = sent?;
                Ok(async move {
                    sent.await?.map_err(|(error, _)| error)?;
                    Ok(())
                })
            }
        })
        .await
    }
}

fn record(parcel: &Parcel) -> FutureRecord<'_, str, [u8]> {
    let headers = OwnedHeaders::new_with_capacity(parcel.attributes.len() + 1);
    let with = |headers: OwnedHeaders, (name, value): &(String, String)| {
        headers.insert(Header { key: name, value: Some(value) })
    };
    let headers = parcel.attributes.iter().fold(headers, with);
    let headers = headers.insert(Header { key: "content-type", value: Some(&parcel.content_type) });
    FutureRecord::to(TOPIC)
        .key(parcel.key.as_str())
        .payload(&*parcel.body)
        .timestamp(parcel.created_at.timestamp_millis())
        .headers(headers)
}
