//! NATS JetStream, with a stream on disk.

use std::time::Duration;

use async_nats::jetstream::context::ContextBuilder;
use async_nats::jetstream::stream::Config;
use async_nats::jetstream::{self, Context};
use async_nats::{ConnectOptions, HeaderMap, header};
use async_trait::async_trait;
use posthaste_testkit::brokers::nats::NatsServer;
use serde_json::{Value, json};

use super::broker::Broker;
use super::parcel::{Parcel, in_flight};
use crate::measure::Result;

const STREAM: &str = "ORDERS";
const SUBJECT: &str = "orders";

/// The settings of the sink.
const IN_FLIGHT: usize = 1024;
const TIMEOUT: Duration = Duration::from_secs(5);

pub(super) struct Nats {
    server: NatsServer,
}

impl Nats {
    async fn connect(&self) -> Result<Context> {
        let options = ConnectOptions::new().connection_timeout(TIMEOUT).request_timeout(Some(TIMEOUT));
        let client = options.connect(self.server.url()).await?;
        let context = ContextBuilder::new().timeout(TIMEOUT).ack_timeout(TIMEOUT);
        Ok(context.max_ack_inflight(IN_FLIGHT * 4).backpressure_on_inflight(false).build(client))
    }
}

#[async_trait]
impl Broker for Nats {
    const NAME: &'static str = "brokers nats";
    const TITLE: &'static str = "NATS JetStream";
    const EVENTS: u64 = 200_000;
    const PREFIX: &'static str = "ce-";
    const BATCH: u32 = 2000;

    type Client = Context;

    async fn start() -> Result<Self> {
        Ok(Self { server: NatsServer::start("").await? })
    }

    /// A new stream, which has forgotten the ids too.
    async fn clear(&self) -> Result<()> {
        let context = self.connect().await?;
        if context.get_stream(STREAM).await.is_ok() {
            context.delete_stream(STREAM).await?;
        }
        let config = Config { name: STREAM.into(), subjects: vec![SUBJECT.into()], ..Config::default() };
        context.create_stream(config).await?;
        Ok(())
    }

    async fn count(&self) -> Result<u64> {
        Ok(self.connect().await?.get_stream(STREAM).await?.cached_info().state.messages)
    }

    fn sink(&self) -> Value {
        json!({ "type": "nats", "url": self.server.url() })
    }

    async fn client(&self) -> Result<Context> {
        self.connect().await
    }

    async fn send(&self, context: &Context, parcels: &[Parcel]) -> Result<()> {
        in_flight(parcels, IN_FLIGHT, |parcel| {
            let (headers, body) = (headers(parcel), parcel.body.clone());
            async move {
                let sent = context.publish_with_headers(SUBJECT, headers, body).await?;
                Ok(async move { acknowledged(sent).await })
            }
        })
        .await
    }
}

async fn acknowledged(sent: jetstream::context::PublishAckFuture) -> Result<()> {
    match sent.await?.duplicate {
        true => Err("the stream had it already".into()),
        false => Ok(()),
    }
}

fn headers(parcel: &Parcel) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in &parcel.attributes {
        headers.insert(name.as_str(), value.as_str());
    }
    headers.insert("ce-datacontenttype", parcel.content_type.as_str());
    headers.insert(header::NATS_MESSAGE_ID, parcel.id.as_str());
    headers
}
