//! Reads a topic from its beginning to its end, without a group: the mock cluster makes groups wait for three seconds.

use std::collections::BTreeMap;
use std::time::Duration;

use posthaste_testkit::sink_suite::Received;
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::message::{BorrowedMessage, Headers, Message};
use rdkafka::{Offset, TopicPartitionList};

const WITHIN: Duration = Duration::from_secs(10);

/// One record as it was read, with the time in it.
#[derive(Debug)]
pub(crate) struct Read {
    pub(crate) received: Received,
    pub(crate) millis: Option<i64>,
}

/// Everything in a topic, partition by partition.
pub(crate) async fn read(brokers: &str, topic: &str) -> Vec<Read> {
    let (brokers, topic) = (brokers.to_owned(), topic.to_owned());
    tokio::task::spawn_blocking(move || read_all(&brokers, &topic)).await.expect("reading does not panic")
}

/// The records as the suite wants them.
pub(crate) async fn received(brokers: &str, topic: &str) -> Vec<Received> {
    read(brokers, topic).await.into_iter().map(|read| read.received).collect()
}

/// The bodies as texts.
pub(crate) async fn texts(brokers: &str, topic: &str) -> Vec<String> {
    let text = |received: Received| String::from_utf8(received.body).expect("text");
    received(brokers, topic).await.into_iter().map(text).collect()
}

fn read_all(brokers: &str, topic: &str) -> Vec<Read> {
    let consumer: BaseConsumer = ClientConfig::new()
        .set("bootstrap.servers", brokers)
        .set("group.id", "readers")
        .set("enable.auto.commit", "false")
        .set("reconnect.backoff.max.ms", "500")
        .set("fetch.wait.max.ms", "50")
        .create()
        .expect("a consumer");
    let partitions = partitions(&consumer, topic);
    let ends: Vec<(i32, i64, i64)> = partitions
        .into_iter()
        .map(|partition| {
            let (low, high) = consumer.fetch_watermarks(topic, partition, WITHIN).expect("its ends");
            (partition, low, high)
        })
        .collect();
    let mut wanted: i64 = ends.iter().map(|(_, low, high)| high - low).sum();
    let mut list = TopicPartitionList::new();
    for (partition, ..) in &ends {
        list.add_partition_offset(topic, *partition, Offset::Beginning).expect("a partition");
    }
    consumer.assign(&list).expect("assigned");
    let mut by_partition: BTreeMap<i32, Vec<Read>> = BTreeMap::new();
    while wanted > 0 {
        let message = consumer.poll(WITHIN).expect("a message in time").expect("a good one");
        wanted -= 1;
        by_partition.entry(message.partition()).or_default().push(of_message(&message));
    }
    by_partition.into_values().flatten().collect()
}

fn partitions(consumer: &BaseConsumer, topic: &str) -> Vec<i32> {
    let metadata = consumer.fetch_metadata(Some(topic), WITHIN).expect("metadata");
    let topic = metadata.topics().first().expect("the topic");
    topic.partitions().iter().map(|partition| partition.id()).collect()
}

fn of_message(message: &BorrowedMessage<'_>) -> Read {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("text");
    let headers: BTreeMap<String, String> = message
        .headers()
        .into_iter()
        .flat_map(|headers| headers.iter())
        .map(|header| (header.key.to_owned(), text(header.value.unwrap_or_default())))
        .collect();
    let received = Received {
        id: headers.get("ce_id").expect("an id").clone(),
        key: message.key().map(text),
        body: message.payload().unwrap_or_default().to_vec(),
        headers,
    };
    Read { received, millis: message.timestamp().to_millis() }
}
