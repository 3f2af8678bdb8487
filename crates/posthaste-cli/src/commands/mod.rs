//! The commands, one file or folder each.

pub(crate) mod check;
pub(crate) mod dev;
pub(crate) mod doctor;
pub(crate) mod init;
pub(crate) mod migrate;
pub(crate) mod relay;
pub(crate) mod version;

// The operator's: each speaks to `Admin`, and to nothing else; only `dead letters` also opens the inbox of consumers.
mod completions;
mod dead;
mod events;
mod keys;
mod replay;
mod retain;
mod status;
mod subscriptions;
mod why;
pub(crate) mod operate;
