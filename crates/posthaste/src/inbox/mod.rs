//! The receiving side: a guard for each consumer, so that an event that arrives twice has its effect once.
//!
//! Whoever delivers at least once delivers some events twice: after a crash, a lost acknowledgement, a replay. Each copy
//! carries the same event id ([`event_id_of`]), and a guard remembers per consumer which ids it has seen:
//!
#![cfg_attr(feature = "postgres", doc = "- [`PostgresInbox`]")]
#![cfg_attr(feature = "sqlite", doc = "- [`SqliteInbox`]")]
#![cfg_attr(feature = "redis", doc = "- [`RedisInbox`]")]
//!
//! In a database the mark commits together with what the consumer writes, hence exactly once. Redis shares no transaction
//! with the effect, hence a lease, a fence, and at least once after a crash. There is no trait over the three on purpose:
//! what the effect is handed, a transaction or a fence, is the difference in what is promised, and a trait would hide it.
//!
//! This module owns what a consumer remembers and what it gives up on. It refuses to own the consumer's loop: nothing here
//! reads a broker or acknowledges a message.

mod names;
mod event_id;
mod once;
mod letter;
#[cfg(any(feature = "postgres", feature = "sqlite"))]
mod chunks;
#[cfg(feature = "redis")]
mod redis;
#[cfg(feature = "postgres")]
mod postgres;
#[cfg(feature = "sqlite")]
mod sqlite;
#[cfg(any(feature = "postgres", feature = "sqlite"))]
mod letters;

pub use event_id::{Source, event_id_in, event_id_of};
pub use letter::{DeadLetter, LetIn, Letter, LetterFilter, LetterStatus};
#[cfg(any(feature = "postgres", feature = "sqlite"))]
pub use letters::DeadLetters;
#[cfg(any(feature = "postgres", feature = "sqlite"))]
pub use once::{GivenUp, Mark};
pub use once::{Once, OnceError};
#[cfg(feature = "postgres")]
pub use postgres::PostgresInbox;
#[cfg(feature = "redis")]
pub use redis::{Claim, Entered, Fence, RedisInbox};
#[cfg(feature = "sqlite")]
pub use sqlite::SqliteInbox;
