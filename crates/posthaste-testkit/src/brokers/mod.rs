//! Broker programs as tests start them. Clients stay out of here: a test brings its own.

pub mod pubsub;
