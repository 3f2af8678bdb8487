//! RabbitMQ, with a durable queue and persistent messages.

use async_trait::async_trait;
use lapin::message::BasicGetMessage;
use lapin::options::{BasicGetOptions, QueueDeclareOptions};
use lapin::types::FieldTable;
use lapin::{Channel, Connection, ConnectionProperties};
use posthaste::EventId;
use posthaste::inbox::{Source, event_id_of};
use posthaste_testkit::Accepted;
use posthaste_testkit::brokers::rabbitmq::RabbitMq;

use crate::broker::Broker;
use crate::finding::Result;
use crate::writer::TOPIC;

pub(super) struct Rabbitmq {
    server: RabbitMq,
}

impl Rabbitmq {
    pub(super) async fn start() -> Result<Self> {
        let rabbitmq = Self { server: RabbitMq::start("").await? };
        let (_connection, channel) = rabbitmq.connect().await?;
        let durable = QueueDeclareOptions { durable: true, ..QueueDeclareOptions::default() };
        channel.queue_declare(TOPIC.into(), durable, FieldTable::default()).await?;
        // A queue is declared before it is on disk: killed within the next seconds, the broker comes back without it.
        rabbitmq.server.ctl(&["eval", "ok = mnesia:sync_log()."]);
        Ok(rabbitmq)
    }

    fn url(port: u16) -> String {
        format!("amqp://127.0.0.1:{port}")
    }

    async fn connect(&self) -> Result<(Connection, Channel)> {
        let connection =
            Connection::connect(&Self::url(self.server.port()), ConnectionProperties::default()).await?;
        let channel = connection.create_channel().await?;
        Ok((connection, channel))
    }
}

#[async_trait]
impl Broker for Rabbitmq {
    fn name(&self) -> String {
        self.server.version()
    }

    fn port(&self) -> u16 {
        self.server.port()
    }

    fn sink(&self, port: u16) -> String {
        format!("type = \"rabbitmq\"\nurl = {:?}\nrouting_key = {TOPIC:?}", Self::url(port))
    }

    fn kill(&self) {
        self.server.kill();
    }

    async fn bring_back(&self) {
        self.server.bring_back().await;
    }

    /// Takes them out of the queue, which is therefore done once, at the end: what was taken shortly before a kill would be
    /// there again.
    async fn messages(&self) -> Result<Vec<Accepted>> {
        let (_connection, channel) = self.connect().await?;
        let (taken, mut accepted) = (BasicGetOptions { no_ack: true }, Vec::new());
        while let Some(message) = channel.basic_get(TOPIC.into(), taken).await? {
            accepted.push(read(message)?);
        }
        Ok(accepted)
    }
}

fn read(message: BasicGetMessage) -> Result<Accepted> {
    let id =
        message.delivery.properties.message_id().as_ref().map(|id| ("message_id", id.as_str().to_owned()));
    let id = event_id_of(Source::Rabbitmq, id).ok_or("a message without an event id")?;
    Ok(Accepted { id: EventId(id.parse()?), key: None, payload: message.delivery.data })
}
