//! Google Pub/Sub.

use async_trait::async_trait;
use posthaste::{Outcome, Page, Sink};

use crate::endpoint::{Endpoint, Route};
use crate::section::Section;

/// What was configured, checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PubsubSettings {}

impl PubsubSettings {
    /// Reads the sink's table.
    pub fn validate(section: &Section<'_>) -> Option<Self> {
        section.problem("type", "is not there yet");
        None
    }
}

/// The sink.
#[derive(Debug)]
pub struct PubsubSink {}

impl PubsubSink {
    /// Opens it without waiting for its server; the error is a sentence.
    pub fn new(_settings: PubsubSettings, _route: Route) -> Result<Self, String> {
        Err("not there yet".to_owned())
    }
}

#[async_trait]
impl Sink for PubsubSink {
    async fn deliver(&self, page: &mut Page) {
        page.mark_rest(&Outcome::unavailable("not there yet"));
    }
}

#[async_trait]
impl Endpoint for PubsubSink {
    fn describe(&self) -> String {
        "pubsub".to_owned()
    }
}
