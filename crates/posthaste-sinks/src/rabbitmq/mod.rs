//! RabbitMQ (AMQP 0-9-1), with publisher confirms and `mandatory`.
//!
//! | what the server says | outcome |
//! |---|---|
//! | confirmed, and not returned | delivered |
//! | returned as unroutable (312) | exchange and routing key both fixed: unavailable; else retry |
//! | the exchange does not exist (404) | exchange fixed: unavailable; else retry |
//! | not accepted (`basic.nack`: a full queue that rejects, a queue that failed) | exchange and routing key both fixed: unavailable; else retry |
//! | the user may not write to the exchange (403) | exchange fixed: unavailable; else retry |
//! | the user may not write with this routing key (403, topic permissions) | exchange and routing key both fixed: unavailable; else retry |
//! | the user cannot log in, or there is no such vhost | unavailable |
//! | the message is too large for the server (406, 311) | dead |
//! | no confirmation in time | unavailable if a check over a new connection fails too, else retry |
//! | connection blocked (memory or disk alarm), closed, refused | unavailable |
//! | before sending: larger than `max_message_size`, an address of more than 255 bytes, headers larger than a frame, a field that the address needs and the event lacks | dead |
//!
//! An address that is the same for all events is wrong for all of them, so the subscription waits until it is put right.
//! One that is made from the event may be wrong for that event alone: it is retried, and the others go on.
//!
//! Not here: declaring exchanges and queues. They belong to whoever consumes.

mod errors;
mod link;
mod message;
mod settings;
mod sink;
mod transport;

pub use settings::RabbitmqSettings;
pub use sink::RabbitmqSink;
