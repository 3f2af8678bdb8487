//! The mock cluster as the suite's server.

use std::sync::Arc;

use async_trait::async_trait;
use posthaste::{Event, NewEvent, Outcome, Page, Sink};
use posthaste_sinks::kafka::{KafkaSettings, KafkaSink, Login, Mechanism};
use posthaste_sinks::{Envelope, Form, Route, Secret, Template};
use posthaste_testkit::brokers::kafka::KafkaMock;
use posthaste_testkit::sink_suite::{Received, SinkBench};

use crate::consumer;

/// The suite's events have this topic, and so does the cluster.
pub(crate) const TOPIC: &str = "orders";

pub(crate) struct Kafka {
    pub(crate) mock: KafkaMock,
}

impl Kafka {
    pub(crate) fn settings(&self) -> KafkaSettings {
        KafkaSettings::new(self.mock.brokers().split(','))
    }

    pub(crate) fn open(&self, settings: KafkaSettings, route: Route) -> KafkaSink {
        KafkaSink::new(settings, route).expect("it opens without the cluster")
    }

    pub(crate) async fn texts(&self) -> Vec<String> {
        consumer::texts(self.mock.brokers(), TOPIC).await
    }
}

#[async_trait]
impl SinkBench for Kafka {
    const NAME: &'static str = "kafka";
    const ATTRIBUTES: Option<&'static str> = Some("ce_");

    async fn start() -> Result<Self, String> {
        let mock = KafkaMock::start()?;
        mock.tell(&format!("topic {TOPIC} 4"));
        Ok(Self { mock })
    }

    fn server(&self) -> String {
        format!("librdkafka {} mock cluster", rdkafka::util::get_rdkafka_version().1)
    }

    fn sink(&self) -> Arc<dyn Sink> {
        Arc::new(self.open(self.settings(), Route::new("s")))
    }

    fn structured(&self) -> Arc<dyn Sink> {
        Arc::new(self.open(self.settings(), Route::new("s").envelope(Envelope::new(Form::Structured))))
    }

    async fn received(&self) -> Vec<Received> {
        consumer::received(self.mock.brokers(), TOPIC).await
    }

    async fn take_away(&self) {
        self.mock.tell("down");
    }

    async fn bring_back(&self) {
        self.mock.tell("up");
    }

    fn too_large(&self) -> Option<usize> {
        Some(1_000_000)
    }

    /// The mock cluster knows no passwords and hangs up on whoever brings one, as a broker does on a wrong one.
    fn with_wrong_credentials(&self) -> Option<Arc<dyn Sink>> {
        let mut settings = self.settings();
        let (username, password) = ("relay".to_owned(), Secret::new("wrong"));
        settings.login = Some(Login { username, password, mechanism: Mechanism::Plain });
        Some(Arc::new(self.open(settings, Route::new("s"))))
    }

    fn to_unknown_destination(&self) -> Option<Arc<dyn Sink>> {
        self.mock.tell("topic nowhere 1");
        self.mock.tell("error metadata nowhere UNKNOWN_TOPIC_OR_PART");
        let mut settings = self.settings();
        settings.topic = Template::literal("nowhere");
        Some(Arc::new(self.open(settings, Route::new("s"))))
    }
}

/// A page of numbered events; `key` says whose each is.
pub(crate) fn page(numbers: std::ops::Range<usize>, key: impl Fn(usize) -> Option<String>) -> Page {
    let event = |n: usize| -> Arc<Event> {
        let event = NewEvent::bytes(TOPIC, format!("{n}")).content_type("text/plain");
        let event = match key(n) {
            Some(key) => event.key(key),
            None => event,
        };
        Arc::new(event.stored(i64::try_from(n).expect("small"), chrono::Utc::now()))
    };
    Page::new(numbers.map(event).collect())
}

/// What the page says, as a letter per event: delivered, retry, dead, unavailable, or `-` for unmarked.
pub(crate) fn marks(page: &Page) -> String {
    let letter = |index| match page.outcome(index) {
        Some(Outcome::Delivered) => 'D',
        Some(Outcome::Retry { .. }) => 'r',
        Some(Outcome::Dead { .. }) => 'x',
        Some(Outcome::Unavailable { .. }) => 'u',
        _ => '-',
    };
    (0..page.events().len()).map(letter).collect()
}

/// The reason beside a mark.
pub(crate) fn reason(page: &Page, index: usize) -> &str {
    match page.outcome(index) {
        Some(Outcome::Retry { reason, .. } | Outcome::Dead { reason } | Outcome::Unavailable { reason }) => {
            reason
        }
        _ => "",
    }
}
