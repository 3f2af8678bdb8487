//! Private databases, suites and checkers for testing Posthaste and what is built on it.

mod database;
mod ledger;
mod workload;
pub mod suite;

pub use database::{Server, SqliteDatabase, TestDatabase, servers, sqlite_file};
pub use ledger::{Accepted, Committed, Ledger, Verdict};
pub use workload::{Commits, Workload};
