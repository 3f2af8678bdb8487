//! `pubsub`: Google Pub/Sub, with Google's own client.
//!
//! A page is sent at once: the client keeps one sender per ordering key, sends its messages in order, and after a failure
//! refuses the later ones until it is told to resume. So nothing overtakes a message that failed.
//!
//! | what Pub/Sub or the client says | outcome |
//! |---|---|
//! | a message id | delivered |
//! | `INVALID_ARGUMENT`, to this message alone | dead, with the server's sentence |
//! | `INVALID_ARGUMENT`, to several messages in one request | each is sent alone, and then judged |
//! | more than 10 MB with attributes and key; an attribute or topic that Pub/Sub cannot carry | dead, before anything is sent |
//! | the topic's template needs what the event has not | dead |
//! | `NOT_FOUND`, `PERMISSION_DENIED`, `FAILED_PRECONDITION` of the one topic of this sink | unavailable, with the remedy |
//! | the same of a topic that was made from the event | retry, so that the other topics go on |
//! | `UNAUTHENTICATED`, credentials that cannot be had | unavailable |
//! | `RESOURCE_EXHAUSTED`, `UNAVAILABLE`, no connection | unavailable |
//! | `DEADLINE_EXCEEDED` or no answer in time, nor to a check | unavailable |
//! | the same, but a check is answered | each message is sent alone; one that is not answered alone: retry; unavailable if a second one is not either and nothing is accepted |
//! | any other code (`INTERNAL`, `UNKNOWN`, `ABORTED`, ...) | unavailable |
//! | the time of the page is over | unavailable |
//! | the key is paused because an attempt that was given up has failed meanwhile | unavailable |

mod settings;
mod errors;
mod message;
mod client;
mod health;
mod course;
mod sink;

pub use settings::PubsubSettings;
pub use sink::PubsubSink;
