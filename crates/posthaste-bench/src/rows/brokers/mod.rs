//! How much of a broker's client is left when the events come out of PostgreSQL and are settled there: the same client
//! alone, with the same settings and messages that lie in memory, against a worker with a backlog.

#[cfg(feature = "brokers")]
mod parcel;
#[cfg(feature = "brokers")]
mod broker;
#[cfg(feature = "brokers")]
mod kafka;
#[cfg(feature = "brokers")]
mod nats;
#[cfg(feature = "brokers")]
mod rabbitmq;
#[cfg(feature = "brokers")]
mod redis;
#[cfg(feature = "brokers")]
pub(crate) mod receiver;
#[cfg(feature = "brokers")]
mod webhook;

use crate::bench::Bench;
use crate::measure::{Figure, Result};

/// One figure per broker. One that cannot be started is skipped by name.
#[cfg(feature = "brokers")]
pub(crate) async fn brokers(bench: &Bench) -> Result<Vec<Figure>> {
    Ok(vec![
        broker::measure::<kafka::Kafka<3>>(bench).await?,
        broker::measure::<kafka::Kafka<1>>(bench).await?,
        broker::measure::<nats::Nats>(bench).await?,
        broker::measure::<redis::Redis>(bench).await?,
        broker::measure::<rabbitmq::Rabbitmq>(bench).await?,
        broker::measure::<webhook::Webhook>(bench).await?,
    ])
}

#[cfg(not(feature = "brokers"))]
pub(crate) async fn brokers(_: &Bench) -> Result<Vec<Figure>> {
    let mut figure = Figure::timed("brokers", "Brokers' clients", "events/s", crate::measure::Better::More);
    figure.skip("brokers", "the bench was built without its feature `brokers`".to_owned());
    Ok(vec![figure])
}
