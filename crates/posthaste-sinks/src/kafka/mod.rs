//! Kafka and Redpanda.

use async_trait::async_trait;
use posthaste::{Outcome, Page, Sink};

use crate::endpoint::{Endpoint, Route};
use crate::section::Section;

/// What was configured, checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KafkaSettings {}

impl KafkaSettings {
    /// Reads the sink's table.
    pub fn validate(section: &Section<'_>) -> Option<Self> {
        section.problem("type", "is not there yet");
        None
    }
}

/// The sink.
#[derive(Debug)]
pub struct KafkaSink {}

impl KafkaSink {
    /// Opens it without waiting for its server; the error is a sentence.
    pub fn new(_settings: KafkaSettings, _route: Route) -> Result<Self, String> {
        Err("not there yet".to_owned())
    }
}

#[async_trait]
impl Sink for KafkaSink {
    async fn deliver(&self, page: &mut Page) {
        page.mark_rest(&Outcome::unavailable("not there yet"));
    }
}

#[async_trait]
impl Endpoint for KafkaSink {
    fn describe(&self) -> String {
        "kafka".to_owned()
    }
}
