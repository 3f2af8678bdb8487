//! For tests of applications that use Posthaste: what a transaction enqueued, subscriptions run until they are idle,
//! clocks that can be moved, sinks that record and sinks that fail. The guide is `docs/guide/testing.md`.
//!
//! With the feature `suites` also what Posthaste's own tests need: private servers, brokers, suites and checkers.

// The kit for applications.
#[cfg(feature = "sqlite")]
mod sqlite;
#[cfg(feature = "postgres")]
mod postgres;
mod expected;
mod difference;
mod kit;
mod report;
mod sinks;
mod recorder;
mod flaky;

// What Posthaste's own tests need.
#[cfg(feature = "suites")]
mod database;
#[cfg(feature = "suites")]
mod process;
#[cfg(feature = "suites")]
mod account;
#[cfg(feature = "suites")]
mod last_will;
#[cfg(feature = "suites")]
mod tmpfs;
#[cfg(feature = "suites")]
mod gate;
#[cfg(feature = "suites")]
pub mod brokers;
#[cfg(feature = "suites")]
mod private_postgres;
#[cfg(feature = "suites")]
mod pgbouncer;
#[cfg(feature = "suites")]
mod ledger;
#[cfg(feature = "suites")]
mod workload;
#[cfg(feature = "suites")]
mod hostile;
#[cfg(feature = "suites")]
pub mod suite;
#[cfg(feature = "suites")]
pub mod sink_suite;

pub use expected::{EnqueuedEvents, Expected};
pub use flaky::{Fate, Flaky};
pub use kit::Kit;
#[cfg(feature = "postgres")]
pub use postgres::PostgresSchema;
pub use posthaste::testing::{EventMark, NotDelivered, Why};
pub use recorder::{Recorded, Recorder};
pub use report::Report;
#[cfg(feature = "sqlite")]
pub use sqlite::{SqliteDatabase, sqlite_file};

#[cfg(feature = "suites")]
pub use {
    database::{Server, TestDatabase, servers},
    gate::Gate,
    hostile::hostile_name,
    ledger::{Accepted, Committed, Ledger, Verdict},
    pgbouncer::{PgBouncer, PoolMode},
    private_postgres::{PostgresSetup, PrivatePostgres},
    process::{Process, free_port, program, until_listening},
    tmpfs::Tmpfs,
    workload::{Commits, Workload},
};
