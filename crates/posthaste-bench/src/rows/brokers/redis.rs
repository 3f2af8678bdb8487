//! Redis Streams on a server that writes everything to disk before it answers.

use std::time::Duration;

use async_trait::async_trait;
use posthaste_testkit::brokers::redis::RedisServer;
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, Pipeline};
use serde_json::{Value, json};

use super::broker::Broker;
use super::parcel::Parcel;
use crate::measure::Result;
use crate::ours::BATCH;

const STREAM: &str = "orders";

/// The setting of the sink.
const TIMEOUT: Duration = Duration::from_secs(5);

pub(super) struct Redis {
    server: RedisServer,
}

impl Redis {
    async fn connect(&self) -> Result<MultiplexedConnection> {
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(TIMEOUT))
            .set_response_timeout(Some(TIMEOUT));
        Ok(Client::open(self.server.url())?.get_multiplexed_async_connection_with_config(&config).await?)
    }
}

#[async_trait]
impl Broker for Redis {
    const NAME: &'static str = "brokers redis";
    const TITLE: &'static str = "Redis Streams";
    const EVENTS: u64 = 300_000;
    const PREFIX: &'static str = "ce_";

    type Client = MultiplexedConnection;

    async fn start() -> Result<Self> {
        Ok(Self { server: RedisServer::start(&[]).await? })
    }

    async fn clear(&self) -> Result<()> {
        Ok(redis::cmd("FLUSHALL").exec_async(&mut self.connect().await?).await?)
    }

    async fn count(&self) -> Result<u64> {
        Ok(redis::cmd("XLEN").arg(STREAM).query_async(&mut self.connect().await?).await?)
    }

    fn sink(&self) -> Value {
        json!({ "type": "redis", "url": self.server.url(), "stream": "{topic}" })
    }

    async fn client(&self) -> Result<MultiplexedConnection> {
        self.connect().await
    }

    /// Page by page: what is refused in one must be known before the next is sent.
    async fn send(&self, connection: &MultiplexedConnection, parcels: &[Parcel]) -> Result<()> {
        let mut connection = connection.clone();
        for page in parcels.chunks(BATCH as usize) {
            let mut pipeline = Pipeline::with_capacity(page.len());
            // The server waits for its disk once per transaction, as for the sink's script, and not for every piece it reads.
            pipeline.atomic();
            page.iter().for_each(|parcel| add(&mut pipeline, parcel));
            let ids: Vec<String> = pipeline.query_async(&mut connection).await?;
            if ids.len() != page.len() {
                return Err(format!("{} of {} entries were added", ids.len(), page.len()).into());
            }
        }
        Ok(())
    }
}

fn add(pipeline: &mut Pipeline, parcel: &Parcel) {
    let command = pipeline.cmd("XADD").arg(STREAM).arg("*");
    command.arg("id").arg(&parcel.id).arg("key").arg(&parcel.key);
    for (name, value) in &parcel.attributes {
        command.arg(name).arg(value);
    }
    command.arg("content-type").arg(&parcel.content_type).arg("data").arg(&*parcel.body);
}
