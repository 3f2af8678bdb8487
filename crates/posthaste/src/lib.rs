//! Posthaste is a transactional outbox: an application writes its own rows and an event in one database transaction;
//! Posthaste then carries that event, at least once, in order per key, to every subscription that wants it.

// Crates that only bring a sink build this one without a database: the vocabulary and the ports, and nobody to use them.
#![cfg_attr(
    not(any(feature = "postgres", feature = "sqlite")),
    expect(dead_code, unused_imports, unused_macros, reason = "only a store uses them")
)]

// 1 vocabulary: plain data and pure rules, no I/O
mod error;
mod id;
mod event;
mod registry;
mod outcome;
mod page;
mod retry;
mod subscription;
mod lease;
mod observe;
mod failpoint;

// 2 ports: what the flow needs from outside
mod sink;
mod checked;
mod store;

// 3 steps: one verb each; a step never calls another step
mod enqueue;
mod wake;
mod claim;
mod dispatch;
pub mod inbox;

// 4 assembly: the only place that chains what stands above, and that spawns tasks
#[cfg(feature = "postgres")]
mod transactional;
mod worker;
mod handle;

// 5 admin: what people, the CLI and the dashboard speak to
pub mod admin;

// 6 testing: what the test kit needs and nobody else may have
#[cfg(feature = "testing")]
pub mod testing;

pub use admin::Admin;
pub use checked::Checked;
pub use claim::{Claimed, Claims};
pub use enqueue::Producer;
pub use error::{Error, ErrorKind, InvalidEvent, Result};
pub use event::{Enqueued, Event, Headers, Limits, NewEvent};
pub use handle::Posthaste;
pub use id::{EventId, SchemaName, SubscriptionName, WorkerName};
pub use lease::Attempt;
pub use observe::Counters;
pub use outcome::{DeliveryStatus, Outcome, Standing, Step};
pub use page::Page;
pub use registry::{Contract, Misfit, Registry};
pub use retry::RetryPolicy;
pub use sink::{Handler, IntoOutcome, Sink};
#[cfg(feature = "sqlite")]
pub use store::sqlite::sqlite_options;
pub use subscription::{AfterDead, ClaimBy, Filter, Order, Settings, Start, Subscription};
pub use worker::{Worker, WorkerBuilder, WorkerEnd};

/// Compiles and runs the example of the README.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;

/// Compiles and runs the examples of the guide.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/guide/embed.md")]
struct Embed;

/// Compiles and runs the examples of the consumer's guide.
#[cfg(all(doctest, feature = "redis", feature = "postgres", feature = "sqlite"))]
#[doc = include_str!("../../../docs/guide/consume.md")]
struct Consume;

/// Compiles the examples of the operator's guide.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/guide/operate.md")]
struct Operate;
