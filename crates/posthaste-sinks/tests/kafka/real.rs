//! The suite once more against a real broker, if `POSTHASTE_TEST_KAFKA` names one as `host:port`: all that does not need to
//! take the broker away.

use std::sync::Arc;

use async_trait::async_trait;
use posthaste::Sink;
use posthaste_sinks::kafka::{KafkaSettings, KafkaSink};
use posthaste_sinks::{Envelope, Form, Route, Template};
use posthaste_testkit::sink_suite::{self, Received, SinkBench};
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::config::ClientConfig;

use crate::consumer;

struct RealKafka {
    broker: String,
    topic: String,
}

impl RealKafka {
    /// A topic of its own; the suite's events go there whatever theirs is.
    async fn on(broker: String) -> Self {
        let topic = format!("posthaste-test-{}", uuid::Uuid::new_v4());
        let admin: AdminClient<DefaultClientContext> =
            ClientConfig::new().set("bootstrap.servers", &broker).create().expect("an admin client");
        let new = NewTopic::new(&topic, 4, TopicReplication::Fixed(1));
        let made = admin.create_topics([&new], &AdminOptions::new()).await.expect("the broker answers");
        made.into_iter().for_each(|made| drop(made.expect("the topic is created")));
        Self { broker, topic }
    }

    fn open(&self, topic: &str, envelope: Envelope) -> Arc<dyn Sink> {
        let mut settings = KafkaSettings::new([&self.broker]);
        settings.topic = Template::literal(topic);
        Arc::new(KafkaSink::new(settings, Route::new("s").envelope(envelope)).expect("it opens"))
    }
}

#[async_trait]
impl SinkBench for RealKafka {
    const NAME: &'static str = "kafka-real";
    const ATTRIBUTES: Option<&'static str> = Some("ce_");

    async fn start() -> Result<Self, String> {
        let broker = std::env::var("POSTHASTE_TEST_KAFKA");
        let broker = broker.map_err(|_| "POSTHASTE_TEST_KAFKA does not name a broker as host:port")?;
        Ok(Self::on(broker).await)
    }

    fn server(&self) -> String {
        format!("the broker at {}", self.broker)
    }

    fn sink(&self) -> Arc<dyn Sink> {
        self.open(&self.topic, Envelope::default())
    }

    fn structured(&self) -> Arc<dyn Sink> {
        self.open(&self.topic, Envelope::new(Form::Structured))
    }

    async fn received(&self) -> Vec<Received> {
        consumer::received(&self.broker, &self.topic).await
    }

    async fn take_away(&self) {
        unreachable!("somebody else's broker stays");
    }

    async fn bring_back(&self) {}

    fn too_large(&self) -> Option<usize> {
        Some(1_000_000)
    }

    fn with_wrong_credentials(&self) -> Option<Arc<dyn Sink>> {
        None
    }

    fn to_unknown_destination(&self) -> Option<Arc<dyn Sink>> {
        Some(self.open("posthaste-test-nowhere", Envelope::default()))
    }
}

/// A broker that nobody named is not a failure, not even in CI: the mock cluster has run the whole suite.
macro_rules! on_the_real_broker {
    ($($group:ident::$scenario:ident),+ $(,)?) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $scenario() {
                match <RealKafka as SinkBench>::start().await {
                    Ok(bench) => sink_suite::$group::$scenario(&bench).await,
                    Err(reason) => eprintln!("skipped: a real Kafka ({reason})"),
                }
            }
        )+
    };
}

on_the_real_broker!(
    transport::bytes_headers_and_attributes_arrive_as_enqueued,
    transport::the_structured_form_holds_everything,
    transport::ten_thousand_events_arrive_once_in_order,
    refusals::a_refused_event_is_dead_and_the_others_go_on,
    refusals::an_unknown_destination_loses_nothing,
);
