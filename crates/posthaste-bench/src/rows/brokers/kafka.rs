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
const PARTITIONS: i32 = 6;

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

/// Partitions shared by so many leaders. One makes the client far faster: everything goes into a few large requests.
pub(super) struct Kafka<const LEADERS: i32> {
    mock: KafkaMock,
    /// How many messages there were when they were last forgotten: a partition cannot be emptied.
    before: Mutex<u64>,
}

impl<const LEADERS: i32> Kafka<LEADERS> {
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
impl<const LEADERS: i32> Broker for Kafka<LEADERS> {
    const NAME: &'static str = match LEADERS {
        1 => "brokers kafka one leader",
        _ => "brokers kafka",
    };
    const TITLE: &'static str = match LEADERS {
        1 => "Kafka (the same, one broker leads all partitions)",
        _ => "Kafka (librdkafka's mock cluster, three brokers lead two partitions each)",
    };
    const EVENTS: u64 = 500_000;
    const PREFIX: &'static str = "ce_";
    const BATCH: u32 = 2000;

    type Client = FutureProducer;

    async fn start() -> Result<Self> {
        let mock = KafkaMock::start()?;
        mock.tell(&format!("topic {TOPIC} {PARTITIONS}"));
        // Left alone it draws lots.
        for partition in 0..PARTITIONS {
            mock.tell(&format!("leader {TOPIC} {partition} {}", partition % LEADERS + 1));
        }
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

    async fn client(&self) -> Result<FutureProducer> {
        self.producer()
    }

    /// As many under way as the sink has: a page.
    async fn send(&self, producer: &FutureProducer, parcels: &[Parcel]) -> Result<()> {
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
