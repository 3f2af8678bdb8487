//! `nats`: NATS JetStream. An event is delivered when the stream has acknowledged it.
//!
//! | what happens | outcome |
//! |---|---|
//! | the stream acknowledged the message | delivered |
//! | the stream knows this `Nats-Msg-Id` already (`duplicate`) | delivered; on a first attempt with an alarm |
//! | connection refused, lost or timed out; wrong credentials; too many unacknowledged | unavailable |
//! | JetStream is off, starting, without a leader, or out of memory or disk | unavailable |
//! | no acknowledgement in time, and over a new connection no answer to a question either | unavailable |
//! | no acknowledgement in time, although the server and the stream answer | retry |
//! | the stream is full and refuses new messages, is sealed, has no leader, or does not acknowledge (`no_ack`) | unavailable if the subject or the stream is the same for all events, else retry |
//! | no stream takes the subject, another one than `stream` does, or publishing there is not allowed | unavailable if the subject is the same for all events, else retry |
//! | the stream is full for this subject only; an answer that nobody understands | retry |
//! | payload and headers exceed the server's `max_payload` or the stream's `max_msg_size`; headers above 64 KiB | dead |
//! | the subject cannot be rendered, or has spaces, wildcards, empty tokens, a leading `$`, or more than 2,048 bytes | dead |
//!
//! One connection lives once: the client library would keep what it had not sent yet over a reconnect and send it later,
//! behind our back, perhaps after another relay has delivered the event and its followers. So a lost connection is
//! thrown away with everything in it, and the next page opens another one.

mod answers;
mod connection;
mod errors;
mod message;
mod settings;
mod sink;
mod warnings;

pub use settings::{NatsLogin, NatsSettings};
pub use sink::NatsSink;
