//! Kafka and Redpanda, by librdkafka: `acks=all`, an idempotent producer, one result per record.
//!
//! | what happens | outcome |
//! |---|---|
//! | all replicas in sync have the record | delivered |
//! | the event cannot become a record: the topic's template needs what it lacks, the topic's name is none, it is larger than `max_message_bytes` | dead |
//! | the broker refuses the record, sent alone: too large, invalid, against a policy, a timestamp out of bounds | dead |
//! | the broker refuses a batch because of another record in it | sent again, alone |
//! | the topic is unknown, or we may not write to it | unavailable if the topic is a literal, retry if a template names it |
//! | no broker, no leader, too few replicas, throttled, not let in (password, certificate, rights) | unavailable |
//! | no answer in time | unavailable if the cluster does not answer a question either, or a literal topic has no leader; else retry |
//! | the producer is spoilt (its sequence is out of step) | a new producer, then sent again; unavailable if that does not help |
//! | anything else | retry |
//!
//! Unknown topic: somebody has to create it. With a literal topic no event of the subscription can go anywhere, so the
//! subscription waits. With a template other topics must go on, so only the event waits, for as long as attempts last.
//!
//! # Order
//!
//! In key order one record per key is under way, many keys at once ([`chains`](crate::chains)); without it the whole page is.
//! Pipelining within a key was rejected although the producer is idempotent. Records that time out leave gaps by design,
//! also with `enable.gapless.guarantee`, which is experimental. And librdkafka 2.12 prepares the next request of a
//! partition while one is under way; if that one fails in a way that ends the producer's sequence (refused for good,
//! producer unknown), nothing but the broker's check of sequence numbers stops the prepared one, and a broker that has
//! nothing yet of a producer takes any number. Tried on the mock cluster, which never checks, with the gapless guarantee
//! and one request in flight: after MSG_SIZE_TOO_LARGE the next batch was accepted in 1 of 12 runs, after
//! UNKNOWN_PRODUCER_ID in 3 of 12. The price: a hot key goes at one event per round trip.
//!
//! For the same reason a success without an offset is not believed: librdkafka reports it when a *later* request of the
//! partition succeeded. In those 3 runs it reported records as delivered that were nowhere.

mod settings;
mod record;
mod errors;
mod client;
mod warnings;
mod sink;

pub use settings::{KafkaSettings, Login, Mechanism};
pub use sink::KafkaSink;
