//! Amazon SQS, with SendMessageBatch.
//!
//! | what happens | outcome |
//! |---|---|
//! | the entry is in `Successful` | delivered |
//! | the entry is in `Failed`, by the sender's fault | dead |
//! | the entry is in `Failed`, by the server's fault, or is not mentioned | retry |
//! | throttling, of the call or of an entry; trouble with the queue's encryption key | unavailable |
//! | the queue does not exist | queue fixed: unavailable; else retry |
//! | the call is refused because of its contents | sent again one by one; the one that is refused alone is dead |
//! | credentials are missing, wrong, expired, or not allowed to send | unavailable |
//! | no connection, no answer in time, an answer of 5xx | unavailable |
//! | anything else | retry |
//! | before sending: empty, too large, a character that SQS does not take, not text (unless `encoding = "base64"`), a field that the queue's URL needs and the event lacks | dead |
//!
//! In key order an event is never in a call while an earlier one of its key is not known to be accepted: SQS may accept
//! the second and refuse the first. So a page is sent in waves, each with at most one event per key.

mod client;
mod errors;
mod message;
mod settings;
mod sink;
mod text;
mod waves;

pub use settings::SqsSettings;
pub use sink::SqsSink;
