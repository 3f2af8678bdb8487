//! NATS, with a stream on disk.

use async_nats::jetstream::consumer::pull::OrderedConfig;
use async_nats::jetstream::stream::{Config, Stream};
use async_nats::{HeaderMap, jetstream};
use async_trait::async_trait;
use futures::StreamExt;
use posthaste::EventId;
use posthaste::inbox::{Source, event_id_of};
use posthaste_testkit::Accepted;
use posthaste_testkit::brokers::nats::NatsServer;

use crate::broker::Broker;
use crate::finding::Result;
use crate::writer::TOPIC;

const STREAM: &str = "TRIAL";

pub(super) struct Nats {
    server: NatsServer,
}

impl Nats {
    /// It writes a message to its file before it acknowledges it, which is enough for a process that is killed.
    pub(super) async fn start() -> Result<Self> {
        let nats = Self { server: NatsServer::start("").await? };
        let config = Config { name: STREAM.into(), subjects: vec![TOPIC.into()], ..Config::default() };
        nats.connect().await?.create_stream(config).await?;
        Ok(nats)
    }

    async fn connect(&self) -> Result<jetstream::Context> {
        Ok(jetstream::new(async_nats::connect(self.server.url()).await?))
    }
}

#[async_trait]
impl Broker for Nats {
    fn name(&self) -> String {
        self.server.version()
    }

    fn port(&self) -> u16 {
        self.server.port()
    }

    fn sink(&self, port: u16) -> String {
        let url = format!("nats://127.0.0.1:{port}");
        format!("type = \"nats\"\nurl = {url:?}\nsubject = {TOPIC:?}\nstream = {STREAM:?}")
    }

    fn kill(&self) {
        self.server.kill();
    }

    async fn bring_back(&self) {
        self.server.bring_back().await;
    }

    async fn messages(&self) -> Result<Vec<Accepted>> {
        let stream: Stream = self.connect().await?.get_stream(STREAM).await?;
        let count = usize::try_from(stream.cached_info().state.messages)?;
        let messages = stream.create_consumer(OrderedConfig::default()).await?.messages().await?;
        let mut messages = messages.take(count);
        let mut accepted = Vec::with_capacity(count);
        while let Some(message) = messages.next().await {
            let message = message?;
            let id = message.headers.as_ref().and_then(id).ok_or("a message without an event id")?;
            let payload = message.payload.to_vec();
            accepted.push(Accepted { id: EventId(id.parse()?), key: None, payload });
        }
        Ok(accepted)
    }
}

fn id(headers: &HeaderMap) -> Option<String> {
    let first = |values: &[async_nats::HeaderValue]| values.first().map(|value| value.as_str().to_owned());
    let pairs = headers.iter().filter_map(|(name, values)| Some((name.to_string(), first(values)?)));
    event_id_of(Source::Nats, pairs)
}
