//! The sink suite on a NATS server, and what is special about NATS.

#![cfg(feature = "nats")]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_nats::jetstream::consumer::DeliverPolicy;
use async_nats::jetstream::consumer::pull::OrderedConfig;
use async_nats::jetstream::{self, stream};
use async_trait::async_trait;
use futures::StreamExt;
use posthaste::{Outcome, Page, Sink};
use posthaste_sinks::nats::{NatsLogin, NatsSettings, NatsSink};
use posthaste_sinks::{Envelope, Form, Route, Secret, Template};
use posthaste_testkit::brokers::nats::NatsServer;
use posthaste_testkit::sink_suite::{Received, SinkBench};
use tokio::sync::Mutex;

#[path = "nats/special.rs"]
mod special;
#[path = "nats/settings.rs"]
mod settings;

const USER: &str = "authorization { user: posthaste, password: \"s3cret\" }";

struct Nats {
    server: NatsServer,
    /// What was read so far; a stream only grows.
    read: Mutex<Vec<Received>>,
}

impl Nats {
    /// With this added to its configuration, and a stream `EVENTS` for `orders` and `shop.>`.
    async fn with(config: &str) -> Result<Self, String> {
        let server = NatsServer::start(&format!("{USER}\n{config}")).await?;
        let bench = Self { server, read: Mutex::default() };
        bench.create(|_| ()).await;
        Ok(bench)
    }

    async fn create(&self, change: impl FnOnce(&mut stream::Config)) {
        let mut config = stream::Config {
            name: "EVENTS".into(),
            subjects: vec!["orders".into(), "shop.>".into()],
            ..stream::Config::default()
        };
        change(&mut config);
        self.jetstream().await.create_or_update_stream(config).await.expect("a stream");
    }

    async fn jetstream(&self) -> jetstream::Context {
        let options =
            async_nats::ConnectOptions::new().user_and_password("posthaste".into(), "s3cret".into());
        jetstream::new(options.connect(self.server.url()).await.expect("connect"))
    }

    /// How many connections there have been, according to the server's log of details.
    fn connections(&self) -> usize {
        let log = std::fs::read_to_string(self.server.path("log")).expect("its log");
        log.lines().filter(|line| line.contains("Client connection created")).count()
    }

    fn settings(&self, subject: &str) -> NatsSettings {
        let mut settings =
            NatsSettings::new([self.server.url()], Template::parse(subject).expect("a template"));
        settings.login =
            NatsLogin::Password { username: "posthaste".into(), password: Secret::new("s3cret") };
        settings
    }

    fn to(&self, subject: &str) -> Arc<NatsSink> {
        self.open(self.settings(subject), Route::new("s"))
    }

    fn open(&self, settings: NatsSettings, route: Route) -> Arc<NatsSink> {
        Arc::new(NatsSink::new(settings, route).expect("a sink"))
    }
}

#[async_trait]
impl SinkBench for Nats {
    const NAME: &'static str = "nats";
    const ATTRIBUTES: Option<&'static str> = Some("ce-");

    async fn start() -> Result<Self, String> {
        Self::with("").await
    }

    fn server(&self) -> String {
        self.server.version()
    }

    fn sink(&self) -> Arc<dyn Sink> {
        self.to("{topic}")
    }

    fn structured(&self) -> Arc<dyn Sink> {
        let route = Route::new("s").envelope(Envelope::new(Form::Structured));
        self.open(self.settings("{topic}"), route)
    }

    async fn received(&self) -> Vec<Received> {
        let mut read = self.read.lock().await;
        let stream = self.jetstream().await.get_stream("EVENTS").await.expect("the stream");
        let missing = stream.cached_info().state.messages - read.len() as u64;
        if missing > 0 {
            let start = DeliverPolicy::ByStartSequence { start_sequence: read.len() as u64 + 1 };
            let config = OrderedConfig { deliver_policy: start, ..OrderedConfig::default() };
            let consumer = stream.create_consumer(config).await.expect("a consumer");
            let mut messages = consumer.messages().await.expect("messages").take(missing as usize);
            while let Some(message) = messages.next().await {
                read.push(received(&message.expect("a message")));
            }
        }
        read.clone()
    }

    /// SIGKILL: this server has written a message to its file before it acknowledges it.
    async fn take_away(&self) {
        self.server.kill();
    }

    async fn bring_back(&self) {
        self.server.bring_back().await;
    }

    fn too_large(&self) -> Option<usize> {
        Some(1024 * 1024)
    }

    fn with_wrong_credentials(&self) -> Option<Arc<dyn Sink>> {
        let mut settings = self.settings("{topic}");
        settings.login = NatsLogin::Password { username: "posthaste".into(), password: Secret::new("no") };
        Some(self.open(settings, Route::new("s")))
    }

    fn to_unknown_destination(&self) -> Option<Arc<dyn Sink>> {
        Some(self.to("elsewhere.{topic}"))
    }
}

/// As a consumer sees it: header values percent-decoded.
fn received(message: &async_nats::Message) -> Received {
    let headers = message.headers.iter().flat_map(|headers| headers.iter());
    let headers: BTreeMap<String, String> =
        headers.map(|(name, values)| (name.to_string(), decode(values[0].as_str()))).collect();
    Received {
        id: headers.get("Nats-Msg-Id").cloned().expect("an id"),
        key: headers.get("ce-partitionkey").cloned(),
        body: message.payload.to_vec(),
        headers,
    }
}

fn decode(text: &str) -> String {
    let mut parts = text.split('%');
    let mut bytes = parts.next().unwrap_or("").as_bytes().to_vec();
    for part in parts {
        bytes.push(u8::from_str_radix(&part[..2], 16).expect("two digits"));
        bytes.extend_from_slice(&part.as_bytes()[2..]);
    }
    String::from_utf8(bytes).expect("UTF-8")
}

posthaste_testkit::sink_suite!(Nats);
