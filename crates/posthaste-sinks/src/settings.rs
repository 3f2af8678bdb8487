//! Any sink, by the table that configures it.

use std::sync::Arc;
use std::time::Duration;

use crate::endpoint::{Endpoint, Route, share_with_connecting, share_without_connecting};
use crate::lines::{LinesSettings, LinesSink};
use crate::section::Section;

/// The settings of one sink, checked.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum SinkSettings {
    /// Standard output or a file.
    Lines(LinesSettings),
    /// An event-store table in PostgreSQL.
    #[cfg(feature = "event-store")]
    EventStore(crate::event_store::EventStoreSettings),
    /// Kafka and Redpanda.
    #[cfg(feature = "kafka")]
    Kafka(crate::kafka::KafkaSettings),
    /// NATS JetStream.
    #[cfg(feature = "nats")]
    Nats(crate::nats::NatsSettings),
    /// Google Pub/Sub.
    #[cfg(feature = "pubsub")]
    Pubsub(crate::pubsub::PubsubSettings),
    /// RabbitMQ.
    #[cfg(feature = "rabbitmq")]
    Rabbitmq(crate::rabbitmq::RabbitmqSettings),
    /// Redis Streams.
    #[cfg(feature = "redis")]
    Redis(crate::redis::RedisSettings),
    /// Amazon SQS.
    #[cfg(feature = "sqs")]
    Sqs(crate::sqs::SqsSettings),
    /// HTTP webhooks.
    #[cfg(feature = "webhook")]
    Webhook(Box<crate::webhook::WebhookSettings>),
}

/// A word for `type` that needs a cargo feature.
struct Kind {
    word: &'static str,
    feature: &'static str,
    built: bool,
}

/// `stdout` and `file` need no feature.
const KINDS: [Kind; 8] = [
    Kind { word: "event_store", feature: "event-store", built: cfg!(feature = "event-store") },
    Kind { word: "kafka", feature: "kafka", built: cfg!(feature = "kafka") },
    Kind { word: "nats", feature: "nats", built: cfg!(feature = "nats") },
    Kind { word: "pubsub", feature: "pubsub", built: cfg!(feature = "pubsub") },
    Kind { word: "rabbitmq", feature: "rabbitmq", built: cfg!(feature = "rabbitmq") },
    Kind { word: "redis", feature: "redis", built: cfg!(feature = "redis") },
    Kind { word: "sqs", feature: "sqs", built: cfg!(feature = "sqs") },
    Kind { word: "webhook", feature: "webhook", built: cfg!(feature = "webhook") },
];

impl SinkSettings {
    /// Reads a table with `type = "..."`. Unknown fields are noted here too.
    pub fn validate(section: &Section<'_>) -> Option<Self> {
        let kind = section.required_text("type", "\"stdout\"")?;
        let settings = Self::of_kind(&kind, section);
        // The fields of a kind that is not there cannot be told right from wrong.
        if Self::kinds().any(|known| known == kind) {
            section.finish();
        }
        settings
    }

    /// The kinds that this build has.
    pub fn kinds() -> impl Iterator<Item = &'static str> {
        let built = KINDS.iter().filter(|kind| kind.built).map(|kind| kind.word);
        ["stdout", "file"].into_iter().chain(built)
    }

    fn of_kind(kind: &str, section: &Section<'_>) -> Option<Self> {
        match kind {
            "stdout" => Some(Self::Lines(LinesSettings::Stdout)),
            "file" => LinesSettings::validate_file(section).map(Self::Lines),
            #[cfg(feature = "event-store")]
            "event_store" => crate::event_store::EventStoreSettings::validate(section).map(Self::EventStore),
            #[cfg(feature = "kafka")]
            "kafka" => crate::kafka::KafkaSettings::validate(section).map(Self::Kafka),
            #[cfg(feature = "nats")]
            "nats" => crate::nats::NatsSettings::validate(section).map(Self::Nats),
            #[cfg(feature = "pubsub")]
            "pubsub" => crate::pubsub::PubsubSettings::validate(section).map(Self::Pubsub),
            #[cfg(feature = "rabbitmq")]
            "rabbitmq" => crate::rabbitmq::RabbitmqSettings::validate(section).map(Self::Rabbitmq),
            #[cfg(feature = "redis")]
            "redis" => crate::redis::RedisSettings::validate(section).map(Self::Redis),
            #[cfg(feature = "sqs")]
            "sqs" => crate::sqs::SqsSettings::validate(section).map(Self::Sqs),
            #[cfg(feature = "webhook")]
            "webhook" => crate::webhook::WebhookSettings::validate(section).map(Box::new).map(Self::Webhook),
            other => {
                section.problem("type", absent(other));
                None
            }
        }
    }

    /// How long one send may take; `None` for sinks that wait for no server.
    pub fn timeout(&self) -> Option<Duration> {
        match self {
            Self::Lines(_) => None,
            #[cfg(feature = "event-store")]
            Self::EventStore(settings) => Some(settings.timeout),
            #[cfg(feature = "kafka")]
            Self::Kafka(settings) => Some(settings.timeout),
            #[cfg(feature = "nats")]
            Self::Nats(settings) => Some(settings.timeout),
            #[cfg(feature = "pubsub")]
            Self::Pubsub(settings) => Some(settings.timeout),
            #[cfg(feature = "rabbitmq")]
            Self::Rabbitmq(settings) => Some(settings.timeout),
            #[cfg(feature = "redis")]
            Self::Redis(settings) => Some(settings.timeout),
            #[cfg(feature = "sqs")]
            Self::Sqs(settings) => Some(settings.timeout),
            #[cfg(feature = "webhook")]
            Self::Webhook(settings) => Some(settings.timeout),
        }
    }

    /// The longest `timeout` that leaves time for everything else where the engine waits `page_time` for a page: a tenth of it
    /// to start in, a send and a check; where a connection has a deadline of its own, that too. In whole seconds, unless it
    /// is less than one.
    pub fn longest_timeout(&self, page_time: Duration) -> Duration {
        let share = if self.connects() { share_with_connecting } else { share_without_connecting };
        let longest = share(page_time);
        match longest.as_secs() {
            0 => Duration::from_millis(u64::from(longest.subsec_millis()).max(1)),
            seconds => Duration::from_secs(seconds),
        }
    }

    /// Whether its connection has a deadline of its own.
    fn connects(&self) -> bool {
        let connecting = [
            #[cfg(feature = "kafka")]
            matches!(self, Self::Kafka(_)),
            #[cfg(feature = "nats")]
            matches!(self, Self::Nats(_)),
            #[cfg(feature = "rabbitmq")]
            matches!(self, Self::Rabbitmq(_)),
            false,
        ];
        connecting.contains(&true)
    }

    /// Waits no longer than this for one send.
    pub fn limit_timeout(&mut self, longest: Duration) {
        let timeout: Option<&mut Duration> = match self {
            Self::Lines(_) => None,
            #[cfg(feature = "event-store")]
            Self::EventStore(settings) => Some(&mut settings.timeout),
            #[cfg(feature = "kafka")]
            Self::Kafka(settings) => Some(&mut settings.timeout),
            #[cfg(feature = "nats")]
            Self::Nats(settings) => Some(&mut settings.timeout),
            #[cfg(feature = "pubsub")]
            Self::Pubsub(settings) => Some(&mut settings.timeout),
            #[cfg(feature = "rabbitmq")]
            Self::Rabbitmq(settings) => Some(&mut settings.timeout),
            #[cfg(feature = "redis")]
            Self::Redis(settings) => Some(&mut settings.timeout),
            #[cfg(feature = "sqs")]
            Self::Sqs(settings) => Some(&mut settings.timeout),
            #[cfg(feature = "webhook")]
            Self::Webhook(settings) => Some(&mut settings.timeout),
        };
        if let Some(timeout) = timeout {
            *timeout = longest.min(*timeout);
        }
    }

    /// Opens the sink for a subscription, without waiting for its server. The error is a sentence.
    pub fn open(self, route: Route) -> Result<Arc<dyn Endpoint>, String> {
        Ok(match self {
            Self::Lines(settings) => Arc::new(LinesSink::new(settings, route)),
            #[cfg(feature = "event-store")]
            Self::EventStore(settings) => Arc::new(crate::event_store::EventStoreSink::new(settings, route)?),
            #[cfg(feature = "kafka")]
            Self::Kafka(settings) => Arc::new(crate::kafka::KafkaSink::new(settings, route)?),
            #[cfg(feature = "nats")]
            Self::Nats(settings) => Arc::new(crate::nats::NatsSink::new(settings, route)?),
            #[cfg(feature = "pubsub")]
            Self::Pubsub(settings) => Arc::new(crate::pubsub::PubsubSink::new(settings, route)?),
            #[cfg(feature = "rabbitmq")]
            Self::Rabbitmq(settings) => Arc::new(crate::rabbitmq::RabbitmqSink::new(settings, route)?),
            #[cfg(feature = "redis")]
            Self::Redis(settings) => Arc::new(crate::redis::RedisSink::new(settings, route)?),
            #[cfg(feature = "sqs")]
            Self::Sqs(settings) => Arc::new(crate::sqs::SqsSink::new(settings, route)?),
            #[cfg(feature = "webhook")]
            Self::Webhook(settings) => Arc::new(crate::webhook::WebhookSink::new(*settings, route)?),
        })
    }
}

/// Why a kind cannot be had.
fn absent(word: &str) -> String {
    match KINDS.iter().find(|kind| kind.word == word) {
        Some(kind) => format!(
            "this program was built without `{word}`; build it with --features {} (or all-sinks)",
            kind.feature
        ),
        None => {
            let words: Vec<&str> = KINDS.iter().map(|kind| kind.word).collect();
            format!("there is no sink `{word}`; there are stdout, file, {}", words.join(", "))
        }
    }
}

#[cfg(all(test, feature = "redis", feature = "nats"))]
mod tests {
    use super::*;

    #[test]
    fn the_longest_timeout_leaves_time_to_start_in() {
        let settings = |table: serde_json::Value| {
            let (problems, surroundings) = (crate::Problems::default(), crate::Surroundings::default());
            let fields = table.as_object().expect("a table").clone();
            SinkSettings::validate(&Section::new("sink", &fields, &problems, &surroundings)).expect("good")
        };
        let redis = settings(serde_json::json!({ "type": "redis", "url": "redis://localhost" }));
        let nats = settings(serde_json::json!({ "type": "nats", "url": "nats://localhost", "subject": "s" }));
        for (page, longest, connecting) in
            [(60_000, 25_000, 12_000), (30_000, 12_000, 6_000), (10_000, 4_000, 2_000), (1_000, 425, 200)]
        {
            let [page, longest, connecting] = [page, longest, connecting].map(Duration::from_millis);
            assert_eq!((redis.longest_timeout(page), nats.longest_timeout(page)), (longest, connecting));
            assert!(page / 10 + longest * 2 + page / 20 <= page, "{page:?}");
        }
    }
}
