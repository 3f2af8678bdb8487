//! Redis, which writes every entry to disk before it answers.

use async_trait::async_trait;
use posthaste::EventId;
use posthaste::inbox::{Source, event_id_of};
use posthaste_testkit::Accepted;
use posthaste_testkit::brokers::redis::RedisServer;
use redis::aio::MultiplexedConnection;
use redis::streams::{StreamId, StreamRangeReply};
use redis::{AsyncConnectionConfig, Client};

use crate::broker::Broker;
use crate::finding::Result;
use crate::writer::TOPIC;

/// How many entries are read at a time.
const PAGE: usize = 1_000;

pub(super) struct Redis {
    server: RedisServer,
}

impl Redis {
    pub(super) async fn start() -> Result<Self> {
        Ok(Self { server: RedisServer::start(&[]).await? })
    }

    async fn connect(&self) -> Result<MultiplexedConnection> {
        let patient = AsyncConnectionConfig::new().set_response_timeout(None);
        Ok(Client::open(self.server.url())?.get_multiplexed_async_connection_with_config(&patient).await?)
    }
}

#[async_trait]
impl Broker for Redis {
    fn name(&self) -> String {
        self.server.version()
    }

    fn port(&self) -> u16 {
        self.server.port()
    }

    fn sink(&self, port: u16) -> String {
        format!("type = \"redis\"\nurl = \"redis://127.0.0.1:{port}\"\nstream = {TOPIC:?}")
    }

    fn kill(&self) {
        self.server.kill();
    }

    async fn bring_back(&self) {
        self.server.bring_back().await;
    }

    async fn messages(&self) -> Result<Vec<Accepted>> {
        let (mut connection, mut from, mut accepted) = (self.connect().await?, "-".to_owned(), Vec::new());
        loop {
            let mut range = redis::cmd("XRANGE");
            range.arg(TOPIC).arg(&from).arg("+").arg("COUNT").arg(PAGE);
            let page: StreamRangeReply = range.query_async(&mut connection).await?;
            let Some(last) = page.ids.last() else { return Ok(accepted) };
            from = format!("({}", last.id);
            for entry in &page.ids {
                accepted.push(read(entry)?);
            }
        }
    }
}

fn read(entry: &StreamId) -> Result<Accepted> {
    let field = |name: &str| entry.get::<Vec<u8>>(name);
    let fields = entry.map.keys().filter_map(|name| Some((name.as_str(), field(name)?)));
    let id = event_id_of(Source::Redis, fields).ok_or("an entry without an event id")?;
    let payload = field("data").ok_or("an entry without data")?;
    Ok(Accepted { id: EventId(id.parse()?), key: None, payload })
}
