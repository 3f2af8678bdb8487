//! Licence compliance, from end to end: a service writes licences and says so in the same transaction; a worker receives what
//! was said, maybe several times, and notifies admins and stores once.

pub mod change;
pub mod notice;
pub mod service;
pub mod worker;
#[cfg(feature = "redis")]
pub mod stream;
#[cfg(feature = "pubsub")]
pub mod topic;
pub mod embedded;

/// How things end here: well, or with an error for people.
pub type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;
