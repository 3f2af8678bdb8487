//! Private databases, suites and checkers for testing Posthaste and what is built on it.

mod database;
mod process;
mod gate;
pub mod brokers;
mod ledger;
mod workload;
pub mod suite;
pub mod sink_suite;

pub use database::{Server, SqliteDatabase, TestDatabase, servers, sqlite_file};
pub use gate::Gate;
pub use ledger::{Accepted, Committed, Ledger, Verdict};
pub use process::{Process, free_port, program, until_listening};
pub use workload::{Commits, Workload};
