//! Brokers of one's own: started in a temporary folder on this machine, ended with the test. No client libraries here: a
//! test brings its own.

pub mod certificate;
pub mod kafka;
pub mod moto;
pub mod nats;
pub mod pubsub;
pub mod rabbitmq;
pub mod redis;
