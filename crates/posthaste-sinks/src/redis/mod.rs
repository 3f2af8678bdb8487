//! `redis`: Redis Streams. An event is delivered when XADD has answered with the id of its entry.
//!
//! | what happens | outcome |
//! |---|---|
//! | XADD answers with an id | delivered |
//! | connection refused or lost, also when only the answer is lost (the event may then come twice) | unavailable |
//! | no answer in time, nor to a check | unavailable |
//! | no answer in time about several events, but to a check | sent again one by one (those that were added come twice) |
//! | no answer in time about one event, but to a check | retry; unavailable if a second one has none either and nothing is added |
//! | wrong credentials, or a command that is not allowed: `NOAUTH`, `WRONGPASS`, `NOPERM` | unavailable |
//! | the stream is not allowed (`NOPERM`) | unavailable if the stream is the same for all events, else retry |
//! | no memory, no disk, too few replicas: `OOM`, `MISCONF`, `NOREPLICAS` | unavailable |
//! | starting, a replica, busy, or part of a cluster: `LOADING`, `READONLY`, `MASTERDOWN`, `BUSY`, `CLUSTERDOWN`, `TRYAGAIN`, `MOVED`, `ASK`, `CROSSSLOT` | unavailable |
//! | the stream's name belongs to something else: `WRONGTYPE` | unavailable if the stream is the same for all events, else retry |
//! | any other answer to one event | retry |
//! | any other answer to a script with several events | sent again one by one |
//! | an answer that does not account for every event | unavailable |
//! | the time of the page is over | unavailable, not sent |
//! | a field is longer than `proto-max-bulk-len`; more than 3,000 headers | dead |
//! | the stream's name cannot be rendered or is empty | dead |
//!
//! A pipeline does not stop at an error: Redis would refuse one event for lack of memory and take the next one of the
//! same key a moment later. MULTI does not help either, because a command that fails within it does not keep the others
//! from being executed. So a page goes as a script that adds event by event and, after a refused one, leaves out the
//! rest of its key. It is one round trip as well. Only if no two events of it have the same key, nothing stands behind a
//! refused one, and it goes as a transaction, which is cheaper.

mod connection;
mod errors;
mod fields;
mod script;
mod settings;
mod sink;
mod transaction;
mod warnings;

pub use settings::{RedisMaxLength, RedisSettings};
pub use sink::RedisSink;
