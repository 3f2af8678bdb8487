//! Brokers of one's own: started in a temporary folder on this machine, ended with the test. No client libraries here.

pub mod certificate;
pub mod nats;
pub mod redis;
//! Servers for sinks, as tests start them.

pub mod kafka;
//! Private servers for tests, found on this machine: a folder and ports of their own, gone with the test.
//!
//! Client libraries stay out of here: a test brings its own.

pub mod moto;
pub mod rabbitmq;
//! Broker programs as tests start them. Clients stay out of here: a test brings its own.

pub mod pubsub;
