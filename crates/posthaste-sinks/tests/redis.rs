//! The sink suite on a Redis server, and what is special about Redis.

#![cfg(feature = "redis")]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use posthaste::{Outcome, Page, Sink};
use posthaste_sinks::redis::{RedisMaxLength, RedisSettings, RedisSink};
use posthaste_sinks::{Envelope, Form, Route, Secret, Template};
use posthaste_testkit::brokers::redis::RedisServer;
use posthaste_testkit::sink_suite::{Received, SinkBench};
use redis::streams::StreamRangeReply;
use tokio::sync::Mutex;

#[path = "redis/settings.rs"]
mod settings;
#[path = "redis/special.rs"]
mod special;

const PASSWORD: &str = "s3cret";

/// The smallest limit that Redis accepts.
const LONGEST: usize = 1024 * 1024;

struct Redis {
    server: RedisServer,
    /// What was read so far, and the id of the last entry; a stream only grows.
    read: Mutex<(Vec<Received>, String)>,
}

impl Redis {
    async fn connection(&self) -> redis::aio::MultiplexedConnection {
        let url = format!("redis://:{PASSWORD}@127.0.0.1:{}", self.server.port());
        let config = redis::AsyncConnectionConfig::new().set_response_timeout(Some(Duration::from_secs(30)));
        let client = redis::Client::open(url).expect("an address");
        client.get_multiplexed_async_connection_with_config(&config).await.expect("a connection")
    }

    /// Runs one command, its words separated by spaces.
    async fn run<T: redis::FromRedisValue>(&self, command: &str) -> T {
        let mut parsed = redis::Cmd::new();
        for word in command.split(' ') {
            parsed.arg(word);
        }
        parsed.query_async(&mut self.connection().await).await.expect(command)
    }

    fn settings(&self, stream: &str) -> RedisSettings {
        let stream = Template::parse(stream).expect("a template");
        let mut settings = RedisSettings::new("127.0.0.1", self.server.port(), stream);
        settings.password = Some(Secret::new(PASSWORD));
        settings
    }

    fn to(&self, stream: &str) -> Arc<RedisSink> {
        self.open(self.settings(stream), Route::new("s"))
    }

    fn open(&self, settings: RedisSettings, route: Route) -> Arc<RedisSink> {
        Arc::new(RedisSink::new(settings, route).expect("a sink"))
    }
}

#[async_trait]
impl SinkBench for Redis {
    const NAME: &'static str = "redis";
    const ATTRIBUTES: Option<&'static str> = Some("ce_");

    async fn start() -> Result<Self, String> {
        let longest = LONGEST.to_string();
        let options = ["--requirepass", PASSWORD, "--proto-max-bulk-len", &longest];
        let server = RedisServer::start(&options).await?;
        Ok(Self { server, read: Mutex::new((Vec::new(), "-".into())) })
    }

    fn server(&self) -> String {
        self.server.version()
    }

    fn sink(&self) -> Arc<dyn Sink> {
        self.to("{topic}")
    }

    fn structured(&self) -> Arc<dyn Sink> {
        self.open(self.settings("{topic}"), Route::new("s").envelope(Envelope::new(Form::Structured)))
    }

    async fn received(&self) -> Vec<Received> {
        let mut read = self.read.lock().await;
        let reply: StreamRangeReply = self.run(&format!("XRANGE orders {} +", read.1)).await;
        for entry in reply.ids {
            read.1 = format!("({}", entry.id);
            read.0.push(received(&entry));
        }
        read.0.clone()
    }

    /// SIGKILL: with `appendfsync always` an entry is on disk before it is acknowledged.
    async fn take_away(&self) {
        self.server.kill();
    }

    async fn bring_back(&self) {
        self.server.bring_back().await;
    }

    fn too_large(&self) -> Option<usize> {
        Some(LONGEST + 1)
    }

    fn with_wrong_credentials(&self) -> Option<Arc<dyn Sink>> {
        let mut settings = self.settings("{topic}");
        settings.password = Some(Secret::new("wrong"));
        Some(self.open(settings, Route::new("s")))
    }

    /// XADD creates a stream that does not exist.
    fn to_unknown_destination(&self) -> Option<Arc<dyn Sink>> {
        None
    }
}

/// As a consumer sees it: headers without their prefix.
fn received(entry: &redis::streams::StreamId) -> Received {
    let text = |name: &str| entry.get::<String>(name);
    let names = entry.map.keys().filter(|name| *name != "data");
    let headers: BTreeMap<String, String> = names
        .map(|name| (name.strip_prefix("h_").unwrap_or(name).to_owned(), text(name).expect("text")))
        .collect();
    let body: Vec<u8> = entry.get("data").expect("data");
    Received { id: text("id").expect("an id"), key: text("key"), body, headers }
}

posthaste_testkit::sink_suite!(Redis);
