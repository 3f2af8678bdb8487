//! RabbitMQ, with a durable queue.

use async_trait::async_trait;
use lapin::options::{BasicPublishOptions, ConfirmSelectOptions, QueueDeclareOptions, QueueDeleteOptions};
use lapin::types::{AMQPValue, FieldTable, LongString};
use lapin::{BasicProperties, Channel, Confirmation, Connection, ConnectionProperties, PublisherConfirm};
use posthaste_testkit::brokers::rabbitmq::RabbitMq;
use serde_json::{Value, json};

use super::broker::Broker;
use super::parcel::{Parcel, in_flight};
use crate::measure::Result;

const QUEUE: &str = "orders";

/// The setting of the sink.
const IN_FLIGHT: usize = 128;

const PERSISTENT: u8 = 2;

pub(super) struct Rabbitmq {
    server: RabbitMq,
}

impl Rabbitmq {
    fn url(&self) -> String {
        format!("amqp://127.0.0.1:{}", self.server.port())
    }

    async fn connect(&self) -> Result<Connection> {
        Ok(Connection::connect(&self.url(), ConnectionProperties::default()).await?)
    }
}

#[async_trait]
impl Broker for Rabbitmq {
    const NAME: &'static str = "brokers rabbitmq";
    const TITLE: &'static str = "RabbitMQ";
    const EVENTS: u64 = 40_000;
    const PREFIX: &'static str = "cloudEvents_";

    /// A channel does not outlive its connection.
    type Client = (Connection, Channel);

    async fn start() -> Result<Self> {
        Ok(Self { server: RabbitMq::start("").await? })
    }

    async fn clear(&self) -> Result<()> {
        let connection = self.connect().await?;
        let channel = connection.create_channel().await?;
        channel.queue_delete(QUEUE.into(), QueueDeleteOptions::default()).await?;
        let durable = QueueDeclareOptions { durable: true, ..QueueDeclareOptions::default() };
        channel.queue_declare(QUEUE.into(), durable, FieldTable::default()).await?;
        Ok(())
    }

    async fn count(&self) -> Result<u64> {
        let connection = self.connect().await?;
        let channel = connection.create_channel().await?;
        let passive = QueueDeclareOptions { passive: true, ..QueueDeclareOptions::default() };
        let queue = channel.queue_declare(QUEUE.into(), passive, FieldTable::default()).await?;
        Ok(queue.message_count().into())
    }

    fn sink(&self) -> Value {
        json!({ "type": "rabbitmq", "url": self.url(), "routing_key": QUEUE })
    }

    async fn client(&self) -> Result<(Connection, Channel)> {
        let connection = self.connect().await?;
        let channel = connection.create_channel().await?;
        channel.confirm_select(ConfirmSelectOptions::default()).await?;
        Ok((connection, channel))
    }

    async fn send(&self, (_, channel): &(Connection, Channel), parcels: &[Parcel]) -> Result<()> {
        let mandatory = BasicPublishOptions { mandatory: true, immediate: false };
        in_flight(parcels, IN_FLIGHT, |parcel| {
            let (properties, body) = (properties(parcel), &parcel.body);
            async move {
                let sent = channel.basic_publish("".into(), QUEUE.into(), mandatory, body, properties);
                let sent = sent.await?;
                Ok(async move { confirmed(sent).await })
            }
        })
        .await
    }
}

async fn confirmed(sent: PublisherConfirm) -> Result<()> {
    match sent.await? {
        Confirmation::Ack(None) => Ok(()),
        other => Err(format!("not taken: {other:?}").into()),
    }
}

fn properties(parcel: &Parcel) -> BasicProperties {
    let mut headers = FieldTable::default();
    for (name, value) in &parcel.attributes {
        headers.insert(name.as_str().into(), AMQPValue::LongString(LongString::from(value.as_str())));
    }
    BasicProperties::default()
        .with_delivery_mode(PERSISTENT)
        .with_message_id(parcel.id.as_str().into())
        .with_type("orders".into())
        .with_content_type(parcel.content_type.as_str().into())
        .with_timestamp(u64::try_from(parcel.created_at.timestamp()).unwrap_or(0))
        .with_app_id("posthaste".into())
        .with_headers(headers)
}
