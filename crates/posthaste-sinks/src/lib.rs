//! Where Posthaste delivers to: broker clients, webhooks, an event store and files, each a [`posthaste::Sink`].
//!
//! One sink is one folder and one cargo feature. Each has settings that are checked without any I/O, opens without
//! waiting for its server, and says per event what became of it.

// 1 vocabulary: what is configured and what is sent, no I/O
mod problems;
mod section;
mod secret;
mod tls;
mod template;
mod envelope;
mod endpoint;
mod suspicion;

// 2 the order of keys, once for all sinks that send one event at a time
#[cfg(any(feature = "kafka", feature = "nats", feature = "rabbitmq", feature = "sqs", feature = "webhook"))]
#[cfg_attr(
    not(any(test, feature = "kafka", feature = "nats", feature = "rabbitmq", feature = "webhook")),
    expect(dead_code, reason = "SQS sends in batches of its own and only asks for the chains")
)]
mod chains;

// 3 sinks
pub mod lines;
#[cfg(feature = "event-store")]
pub mod event_store;
#[cfg(feature = "kafka")]
pub mod kafka;
#[cfg(feature = "nats")]
pub mod nats;
#[cfg(feature = "pubsub")]
pub mod pubsub;
#[cfg(feature = "rabbitmq")]
pub mod rabbitmq;
#[cfg(feature = "redis")]
pub mod redis;
#[cfg(feature = "sqs")]
pub mod sqs;
#[cfg(feature = "webhook")]
pub mod webhook;

// 4 assembly: any of them by its settings, and several in a row
mod settings;
mod steps;

pub use endpoint::{Endpoint, Route, after_silence, too_late, unless_away};
pub use envelope::{Envelope, Form, Message};
pub use problems::{Problem, Problems};
pub use secret::Secret;
pub use section::{Section, Surroundings, nearest, spell_duration};
pub use settings::SinkSettings;
pub use steps::Steps;
pub use suspicion::{Suspects, Suspicion};
pub use template::Template;
pub use tls::{Tls, is_this_machine};
