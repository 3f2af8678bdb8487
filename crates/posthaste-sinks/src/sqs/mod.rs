//! Amazon SQS, with SendMessageBatch.
//!
//! | what happens | outcome |
//! |---|---|
//! | the entry is in `Successful` | delivered |
//! | the entry is in `Failed`, by the sender's fault | dead |
//! | the entry is in `Failed`, by the server's fault, or is not mentioned; others of the call are not | retry |
//! | the same of every entry of a call with several | unavailable |
//! | the same of the only entry of a call | retry; unavailable if a check fails too |
//! | throttling, of the call or of an entry | unavailable |
//! | the queue does not exist, is not for us (`AccessDenied`, another 403), or its encryption key fails (`Kms...`) | queue fixed: unavailable; else retry |
//! | the call is refused because of its contents | sent again one by one; the one that is refused alone is dead |
//! | credentials are missing, wrong or expired | unavailable |
//! | no connection, an answer of 5xx | unavailable |
//! | no answer in time, nor to a check | unavailable |
//! | no answer in time to several events, but to a check | sent again one by one |
//! | no answer in time to one event, but to a check | retry; unavailable if a second one has none either and nothing is accepted |
//! | anything else | sent again one by one; alone: retry |
//! | the time of the page is over | unavailable, not sent |
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
